// SPDX-License-Identifier: Apache-2.0
// driver: the functions of the CUDA driver that the recorder calls itself. The
// driver has loaded the recorder, so it is in the process already.
#pragma once

#include <cuda.h>

namespace sluice::check {

struct driver_functions {
    decltype(&cuCtxGetDevice) context_device;
    decltype(&cuStreamGetFlags) stream_flags;
    decltype(&cuFuncGetName) function_name;
    decltype(&cuFuncGetParamInfo) parameter;
    decltype(&cuKernelGetParamInfo) kernel_parameter;
    decltype(&cuKernelGetName) kernel_name;
    decltype(&cuThreadExchangeStreamCaptureMode) exchange_mode;
};

// A function that this driver lacks is null.
const driver_functions& driver();

// During its lifetime calls of this thread do not break a capture.
class relaxed_capture {
public:
    relaxed_capture() { exchange(); }
    relaxed_capture(const relaxed_capture&) = delete;  // restores the mode once
    relaxed_capture& operator=(const relaxed_capture&) = delete;
    ~relaxed_capture() { exchange(); }

private:
    void exchange() {
        if (driver().exchange_mode != nullptr) driver().exchange_mode(&mode_);
    }

    CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace sluice::check

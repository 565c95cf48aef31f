// SPDX-License-Identifier: Apache-2.0
// One entry into the driver: what the calling thread's state is made for our calls, and how it becomes what it was. The
// functions come as a table, so that tests can take the driver's place.
//
// A thread that calls the library may have another context current, or none, and other code on it or on other threads
// may be capturing streams. In CUDA's default mode a capture makes queries, waits and allocations fail on all threads,
// and such a call ends the capture. A thread whose mode is relaxed does neither.
#pragma once

#include <cuda.h>

namespace sluice::cuda::api {

struct entry_functions {
    CUresult (*id_of)(CUcontext, unsigned long long*);
    CUresult (*current)(CUcontext*);
    CUresult (*push)(CUcontext);
    CUresult (*pop)(CUcontext*);
    CUresult (*exchange_mode)(CUstreamCaptureMode*);

    static const entry_functions& of_driver();  // throws errc::unsupported
};

struct driver_entry {
    CUresult code = CUDA_SUCCESS;  // when it is another one, nothing was changed
    bool has_pushed = false;
    CUstreamCaptureMode mode_before = CU_STREAM_CAPTURE_MODE_GLOBAL;
};

// CUDA_SUCCESS, or why nothing of the context can be used: CUDA_ERROR_CONTEXT_IS_DESTROYED after a reset by other code,
// CUDA_ERROR_NOT_INITIALIZED in a child of fork, CUDA_ERROR_DEINITIALIZED while the process ends. A context that is
// made after a reset has the same handle, but another id.
inline CUresult why_unusable(const entry_functions& driver, CUcontext context, unsigned long long id) noexcept {
    unsigned long long now = 0;
    const CUresult code = driver.id_of(context, &now);
    return code == CUDA_SUCCESS && now != id ? CUDA_ERROR_CONTEXT_IS_DESTROYED : code;
}

inline driver_entry enter(const entry_functions& driver, CUcontext context, unsigned long long id) noexcept {
    driver_entry made;
    if ((made.code = why_unusable(driver, context, id)) != CUDA_SUCCESS) return made;
    CUcontext current = nullptr;
    if ((made.code = driver.current(&current)) != CUDA_SUCCESS) return made;
    if (current != context) {
        if ((made.code = driver.push(context)) != CUDA_SUCCESS) return made;
        made.has_pushed = true;
    }
    made.mode_before = CU_STREAM_CAPTURE_MODE_RELAXED;
    if ((made.code = driver.exchange_mode(&made.mode_before)) == CUDA_SUCCESS || !made.has_pushed) return made;
    driver.pop(&current);
    made.has_pushed = false;
    return made;
}

inline void leave(const entry_functions& driver, driver_entry made) noexcept {
    if (made.code != CUDA_SUCCESS) return;
    driver.exchange_mode(&made.mode_before);
    CUcontext ours = nullptr;
    if (made.has_pushed) driver.pop(&ours);
}

}  // namespace sluice::cuda::api

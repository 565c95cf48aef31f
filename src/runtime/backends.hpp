// SPDX-License-Identifier: Apache-2.0
// The backends that the library was built with. src/cpu and src/cuda (or src/cuda/cuda_absent.cpp) define these
// functions: the runtime knows only that the backends exist. Likewise src/trace defines the device that records what
// another one executes.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/base/error.hpp"
#include "sluice/runtime/interpreter.hpp"

namespace sluice {

class trace_recorder;
struct runtime_options;

struct found_devices {
    std::vector<std::unique_ptr<device_interpreter>> interpreters;
    std::string why_none;  // the reason, when there are none
};

found_devices find_cpu_devices(const runtime_options& options);
found_devices find_cuda_devices(const runtime_options& options);

// How many blocks of such a launch, whose grid does not count, run at the same time on an idle GPU.
std::size_t resident_on_gpu(device& gpu, const launch_command& like, const error_context& context);

// A device that executes commands through `inner` and reports them to the recorder.
std::unique_ptr<device_interpreter> make_traced_device(std::unique_ptr<device_interpreter> inner,
                                                       trace_recorder& recorder, std::string_view name);

}  // namespace sluice

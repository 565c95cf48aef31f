// The backends that the library was built with. Defined in src/cpu and src/cuda (or src/cuda/absent.cpp):
// the runtime knows that they exist, not what they are.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sluice/runtime/interpreter.hpp"

namespace sluice {

struct runtime_options;

struct found_devices {
    std::vector<std::unique_ptr<device_interpreter>> interpreters;
    std::string why_none;  // when there are none
};

found_devices find_cpu_devices(const runtime_options& options);
found_devices find_cuda_devices(const runtime_options& options);

}  // namespace sluice

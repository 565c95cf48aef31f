// SPDX-License-Identifier: Apache-2.0
// Describes a GPU's fault.
#pragma once

#include <exception>
#include <string_view>

namespace sluice {
class command_queue;
class device;
}  // namespace sluice

namespace sluice::cuda {

// A device_error that names the fault and the commands that were not known to be complete when it was noticed, those of
// `noticed_on` first. One of them is the cause; CUDA does not report which.
std::exception_ptr describe_fault(device& gpu, command_queue& noticed_on, int code, std::string_view call);

}  // namespace sluice::cuda

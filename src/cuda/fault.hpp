// What there is to say about a GPU that has faulted.
#pragma once

#include <exception>
#include <string_view>

namespace sluice {
class command_queue;
class device;
}  // namespace sluice

namespace sluice::cuda {

// A device_error that names the fault and the commands that had not been passed when it was noticed, on `noticed_on`
// first: one of them is the cause. CUDA does not say which.
std::exception_ptr describe_fault(device& gpu, command_queue& noticed_on, int code, std::string_view call);

}  // namespace sluice::cuda

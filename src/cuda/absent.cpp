// The CUDA backend of a library that was built without the CUDA toolkit.

#include "runtime/backends.hpp"

namespace sluice {

found_devices find_cuda_devices(const runtime_options&) { return {{}, "this build of Sluice has no CUDA backend"}; }

}  // namespace sluice

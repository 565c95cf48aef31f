// fused_mlp on a GPU, in a build without CUDA: there are no such devices, so nobody comes here.
#include "kernels/fused_mlp_bodies.hpp"
#include "sluice/runtime/error.hpp"

namespace sluice::kernels {

launch_command fused_mlp_on_cuda(const fused_mlp_call&, fused_type, device&) {
    throw error(errc::unsupported, "this build of Sluice has no CUDA backend", {"fused_mlp"});
}

}  // namespace sluice::kernels

// SPDX-License-Identifier: Apache-2.0
// Networks that stay on a GPU, in a build without CUDA: there are no such devices, so this code never runs.
#include "kernels/resident/resident_mlp.hpp"
#include "sluice/base/error.hpp"

namespace sluice::kernels {
namespace {

[[noreturn]] void refuse() {
    throw error(errc::unsupported, "this build of Sluice has no CUDA backend", {"resident_network"});
}

}  // namespace

std::uint32_t resident_shared_bytes(const device&) { refuse(); }
std::uint32_t most_blocks_of_lane(const device&) { refuse(); }
bool loads_kernels_lazily() { refuse(); }
void start_resident(const native_stream&, const resident_call&, bool, std::uint32_t) { refuse(); }
void note_resident_end() noexcept {}

}  // namespace sluice::kernels

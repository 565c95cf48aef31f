// SPDX-License-Identifier: Apache-2.0
// Collectives among GPUs in a build without NCCL's header: refused.
#include "devices/collective_call.hpp"

#include <memory>

#include "devices/process_rank.hpp"
#include "sluice/base/error.hpp"

namespace sluice::detail {

namespace {
[[noreturn]] void refuse_nccl(const char* what) {
    throw error(errc::unsupported, "this build of Sluice has no NCCL, which GPUs need to exchange data", {what});
}
}  // namespace

collective_group& collective_group::of(const device_set&) { refuse_nccl("communicator"); }

std::string process_rank::hardware(device&) { return {}; }
process_group::invitation process_rank::invite() { refuse_nccl("process_group"); }
std::unique_ptr<process_rank> process_rank::join(device&, const process_group::invitation&,
                                                 const process_group::place&) {
    refuse_nccl("process_group");
}

}  // namespace sluice::detail

// Collectives among GPUs, in a build without NCCL's header.
#include "devices/collective_call.hpp"
#include "sluice/runtime/error.hpp"

namespace sluice::detail {

collective_group& collective_group::of(const device_set&) {
    throw error(errc::unsupported, "this build of Sluice has no NCCL, by which GPUs exchange data", {"communicator"});
}

}  // namespace sluice::detail

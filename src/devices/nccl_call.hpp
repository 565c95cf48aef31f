// SPDX-License-Identifier: Apache-2.0
// Enqueues one rank's part of a collective through NCCL.
#pragma once

#include "cuda/api/nccl.hpp"
#include "sluice/devices/collectives.hpp"

namespace sluice::detail {

ncclResult_t enqueue(const collective_form& form, const void* in, void* out, ncclComm_t by, cudaStream_t on);

struct abort_communicator {
    void operator()(ncclComm_t one) const noexcept { static_cast<void>(cuda::api::nccl_functions::get().abort(one)); }
};
using nccl_communicator = std::unique_ptr<ncclComm, abort_communicator>;

}  // namespace sluice::detail

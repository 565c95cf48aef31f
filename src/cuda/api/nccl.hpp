// SPDX-License-Identifier: Apache-2.0
// The functions of NCCL that collectives call, loaded at first use. For builds that have its header.
#pragma once

#include <nccl.h>

#include <string_view>

#include "sluice/base/error.hpp"

namespace sluice::cuda::api {

struct nccl_functions {
    decltype(&ncclGetErrorString) describe;
    const char* (*describe_last)(ncclComm_t);  // since version 2.13; null before
    decltype(&ncclCommInitAll) make_all;
    decltype(&ncclGetUniqueId) make_id;
    decltype(&ncclCommInitRankConfig) join;
    decltype(&ncclCommGetAsyncError) state;
    decltype(&ncclCommAbort) abort;
    decltype(&ncclGroupStart) begin_group;
    decltype(&ncclGroupEnd) end_group;
    decltype(&ncclAllReduce) all_reduce;
    decltype(&ncclBroadcast) broadcast;
    decltype(&ncclAllGather) all_gather;
    decltype(&ncclReduceScatter) reduce_scatter;

    // Opens the library on first use. Throws errc::unsupported.
    static const nccl_functions& get();
};

// Throws device_error for a result other than success.
void check_nccl(ncclResult_t result, std::string_view call);

}  // namespace sluice::cuda::api

// SPDX-License-Identifier: Apache-2.0
#include "cuda/api/nccl.hpp"

#include <string>

#include "cuda/api/log_text.hpp"
#include "cuda/api/shared_library.hpp"

namespace sluice::cuda::api {
namespace {

nccl_functions load_nccl() {
    const shared_library library("nccl", NCCL_MAJOR);
    nccl_functions all{};
    library.find(all.describe, "ncclGetErrorString");
    library.find_if_there(all.describe_last, "ncclGetLastError");
    library.find(all.make_all, "ncclCommInitAll");
    library.find(all.make_id, "ncclGetUniqueId");
    library.find(all.join, "ncclCommInitRankConfig");
    library.find(all.state, "ncclCommGetAsyncError");
    library.find(all.abort, "ncclCommAbort");
    library.find(all.begin_group, "ncclGroupStart");
    library.find(all.end_group, "ncclGroupEnd");
    library.find(all.all_reduce, "ncclAllReduce");
    library.find(all.broadcast, "ncclBroadcast");
    library.find(all.all_gather, "ncclAllGather");
    library.find(all.reduce_scatter, "ncclReduceScatter");
    return all;
}

class nccl_category final : public std::error_category {
public:
    const char* name() const noexcept override { return "nccl"; }
    std::string message(int code) const override {
        return nccl_functions::get().describe(static_cast<ncclResult_t>(code));
    }
};

}  // namespace

const nccl_functions& nccl_functions::get() {
    static const nccl_functions all = load_nccl();
    return all;
}

void check_nccl(ncclResult_t result, std::string_view call) {
    if (result == ncclSuccess) return;
    static const nccl_category category;
    const auto describe_last = nccl_functions::get().describe_last;
    const char* const details = describe_last != nullptr ? describe_last(nullptr) : nullptr;
    throw device_error({static_cast<int>(result), category}, failed_call(call, details != nullptr ? details : ""), {});
}

}  // namespace sluice::cuda::api

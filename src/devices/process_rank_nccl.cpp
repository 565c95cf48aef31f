// SPDX-License-Identifier: Apache-2.0
// A rank of a group of processes, through NCCL. Its communicator does not block: each call is polled until it is done
// or the group is abandoned.
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>

#include "cuda/api/runtime.hpp"
#include "cuda/api/staying_kernels.hpp"
#include "devices/nccl_call.hpp"
#include "devices/process_rank.hpp"
#include "runtime/runtime_log.hpp"
#include "sluice/base/error.hpp"
#include "sluice/cuda/device_context.hpp"

namespace sluice::detail {
namespace {

namespace api = cuda::api;

class nccl_rank final : public process_rank {
public:
    nccl_rank(device& gpu, const process_group::invitation& to, const process_group::place& here)
        : name_(gpu.name()), ordinal_(cuda::device_context::of(gpu).ordinal()) {
        const api::no_staying_kernel none_stays("make a communicator of NCCL", {"NCCL"});
        ncclUniqueId id;
        std::memcpy(&id, to.data(), sizeof(id));
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0;
        ncclComm_t made = nullptr;
        const api::device_scope scope(ordinal_);
        const ncclResult_t begun = api::nccl_functions::get().join(&made, static_cast<int>(here.size), id,
                                                                   static_cast<int>(here.rank), &config);
        communicator_.reset(made);
        if (begun != ncclInProgress) api::check_nccl(begun, "ncclCommInitRankConfig");
        gpu.log().write(
            {.level = log_level::debug, .event = log_event::library_handle, .device = gpu.name(), .name = "NCCL"},
            [&] { return "a communicator of NCCL is being made for " + gpu.name(); });
    }
    ~nccl_rank() override { abandon(); }

    bool is_complete() override {
        require_group();
        if (have_all_joined_) return true;  // without the lock, which run() may hold for long
        const std::lock_guard lock(mutex_);
        have_all_joined_ = !is_under_way("ncclCommInitRankConfig");
        return have_all_joined_;
    }

    void abandon() noexcept override {
        is_cancelled_ = true;  // a thread that polls with the lock held then throws
        const std::lock_guard lock(mutex_);
        communicator_.reset();
    }

    void run(const collective_form& form, void* data, const native_stream& on) override {
        const std::lock_guard lock(mutex_);
        require_group();
        const api::device_scope scope(ordinal_);
        const ncclResult_t begun = enqueue(form, data, data, communicator_.get(), static_cast<CUstream_st*>(on.handle));
        if (begun != ncclInProgress) return api::check_nccl(begun, form.name);
        while (is_under_way(form.name)) std::this_thread::sleep_for(std::chrono::microseconds(50));
    }

private:
    void require_group() const {
        if (is_cancelled_) throw error(errc::canceled, "the group was abandoned", {"process_group", name_});
    }

    bool is_under_way(const char* call) {
        require_group();
        ncclResult_t now = ncclSuccess;
        api::check_nccl(api::nccl_functions::get().state(communicator_.get(), &now), "ncclCommGetAsyncError");
        if (now == ncclInProgress) return true;
        api::check_nccl(now, call);
        return false;
    }

    const std::string name_;
    const int ordinal_;
    std::atomic<bool> is_cancelled_ = false;
    std::atomic<bool> have_all_joined_ = false;
    std::mutex mutex_;
    nccl_communicator communicator_;
};

}  // namespace

std::string process_rank::hardware(device& gpu) {
    try {
        static_cast<void>(api::nccl_functions::get());
    } catch (const error&) {
        return {};
    }
    return api::bus_id(cuda::device_context::of(gpu).ordinal());
}

process_group::invitation process_rank::invite() {
    ncclUniqueId id;
    static_assert(sizeof(id) == sizeof(process_group::invitation));
    api::check_nccl(api::nccl_functions::get().make_id(&id), "ncclGetUniqueId");
    process_group::invitation made;
    std::memcpy(made.data(), &id, sizeof(id));
    return made;
}

std::unique_ptr<process_rank> process_rank::join(device& gpu, const process_group::invitation& to,
                                                 const process_group::place& here) {
    return std::make_unique<nccl_rank>(gpu, to, here);
}

}  // namespace sluice::detail

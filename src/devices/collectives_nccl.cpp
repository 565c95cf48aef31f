// SPDX-License-Identifier: Apache-2.0
// Collectives among GPUs, through NCCL.
#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

#include "cuda/api/runtime.hpp"
#include "cuda/api/staying_kernels.hpp"
#include "devices/collective_call.hpp"
#include "devices/nccl_call.hpp"
#include "sluice/cuda/device_context.hpp"

namespace sluice::detail {
namespace {

namespace api = cuda::api;

// A collective starts after the work on the command's stream, runs on a stream of each GPU, and the command's stream
// then waits for these streams. The commands' accesses ensure that no two collectives run at the same time
// (device::collective_order).
class nccl_group final : public collective_group {
public:
    explicit nccl_group(std::vector<int> ordinals) : ordinals_(std::move(ordinals)) {
        const api::no_staying_kernel none_stays("make a communicator of NCCL", {"NCCL"});
        std::vector<ncclComm_t> made(ordinals_.size());
        api::check_nccl(
            api::nccl_functions::get().make_all(made.data(), static_cast<int>(made.size()), ordinals_.data()),
            "ncclCommInitAll");
        for (ncclComm_t const each : made) communicators_.emplace_back(each);
    }

    void run(const collective_call& call, const native_stream& on) override {
        auto* const caller = static_cast<CUstream_st*>(on.handle);
        const std::lock_guard lock(mutex_);
        const forks& by = free_forks();
        at(0, [&] { api::record(by.start.get(), caller); });
        for (std::size_t i = 0; i < by.ranks.size(); ++i)
            at(i, [&] { api::wait(by.ranks[i].stream.get(), by.start.get()); });
        const auto& nccl = api::nccl_functions::get();
        api::check_nccl(nccl.begin_group(), "ncclGroupStart");
        ncclResult_t result = ncclSuccess;
        for (std::size_t i = 0; i < call.ranks && result == ncclSuccess; ++i) {
            const auto [in, out] = call.parts[i];
            result = enqueue(call.form, in, out, communicators_[i].get(), by.ranks[i].stream.get());
        }
        const ncclResult_t ended = nccl.end_group();
        // The caller's stream waits for everything that any rank has begun, whatever went wrong.
        for (std::size_t i = 0; i < by.ranks.size(); ++i)
            at(i, [&] { api::record(by.ranks[i].end.get(), by.ranks[i].stream.get()); });
        at(0, [&] {
            for (const fork& each : by.ranks) api::wait(caller, each.end.get());
        });
        api::check_nccl(result, call.form.name);
        api::check_nccl(ended, "ncclGroupEnd");
    }

private:
    struct fork {
        api::stream_handle stream;
        api::event_handle end;
    };
    struct forks {
        api::event_handle start;
        std::vector<fork> ranks;
    };
    template <typename Function>
    void at(std::size_t rank, Function&& f) const {
        const api::device_scope scope(ordinals_[rank]);
        f();
    }

    // Forks that are in no capture. A fork stays in a capture until the capture ends, long after run() has returned.
    const forks& free_forks() {
        for (const auto& each : forks_) {
            if (std::ranges::none_of(each->ranks, [](const fork& one) { return api::is_capturing(one.stream.get()); }))
                return *each;
        }
        auto made = std::make_unique<forks>();
        at(0, [&] { made->start = api::create_event(api::event_use::ordering); });
        for (std::size_t i = 0; i < ordinals_.size(); ++i) {
            at(i, [&] { made->ranks.push_back({api::create_stream(0), api::create_event(api::event_use::ordering)}); });
        }
        forks_.push_back(std::move(made));
        return *forks_.back();
    }

    const std::vector<int> ordinals_;
    std::vector<nccl_communicator> communicators_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<forks>> forks_;
};

// The groups of the sets in which one GPU is the first.
class nccl_groups {
public:
    explicit nccl_groups(cuda::device_context& of) : first_(of) {}

    nccl_group& of(const std::vector<int>& ordinals) {
        const std::lock_guard lock(mutex_);
        std::unique_ptr<nccl_group>& known = groups_[ordinals];
        if (!known) {
            known = std::make_unique<nccl_group>(ordinals);
            first_.log_handle("NCCL");
        }
        return *known;
    }

private:
    cuda::device_context& first_;  // of the GPU that holds the groups
    std::mutex mutex_;
    std::map<std::vector<int>, std::unique_ptr<nccl_group>> groups_;
};

}  // namespace

collective_group& collective_group::of(const device_set& devices) {
    std::vector<int> ordinals;
    for (device* const each : devices) {
        const int ordinal = cuda::device_context::of(*each).ordinal();
        if (std::ranges::find(ordinals, ordinal) != ordinals.end()) {
            throw error(errc::unsupported, "NCCL accepts each GPU only once", {"communicator", each->name()});
        }
        ordinals.push_back(ordinal);
    }
    return cuda::device_context::of(devices[0]).kept<nccl_groups>().of(ordinals);
}

}  // namespace sluice::detail

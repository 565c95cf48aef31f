// SPDX-License-Identifier: Apache-2.0
// sluice_run: a run that was submitted. Its end comes on the runtime's completion thread, which opens the outputs and
// calls the callback.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "c/handles.hpp"
#include "c/status.hpp"
#include "sluice/runtime/device_future.hpp"

// Thread safety: all members may be called on any thread, except as they say.
struct sluice_run {
    // Two owners: the caller's handle, and the end. Throws what submitting throws.
    sluice_run(std::shared_ptr<const sluice::c::loaded_network> of, std::vector<sluice::nn::any_tensor> inputs,
               sluice_callback callback, void* context);
    sluice_run(const sluice_run&) = delete;  // the notice points to it

    const sluice::c::made_here birth;

    // Once. From here on the end may come, which gives up its ownership.
    void start() noexcept { notice_.get()->start(); }
    void release() noexcept {
        if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
    }

    // See sluice_run_wait. Throws errc::invalid_argument.
    sluice_status wait(std::int64_t nanoseconds, sluice_result** result);

private:
    ~sluice_run() = default;
    void end() noexcept;
    bool is_over(std::unique_lock<std::mutex>& lock, std::int64_t nanoseconds);

    const std::shared_ptr<const sluice::c::loaded_network> network_;
    const sluice_callback callback_;
    void* const context_;
    std::atomic<int> owners_{2};
    std::optional<sluice::device_future<sluice::pending<std::vector<sluice::nn::any_tensor>>>> future_;
    sluice::detail::completion_notice::handle notice_;

    std::mutex mutex_;  // guards the rest
    std::condition_variable changed_;
    bool is_over_ = false;
    bool is_taken_ = false;
    sluice::c::failure failure_;
    std::unique_ptr<sluice_result> result_;
};

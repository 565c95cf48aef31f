// SPDX-License-Identifier: Apache-2.0
// row_group: consecutive batches as one command of a CPU device, from rows in host memory to rows in host memory. The
// command computes one batch after the other, each by the kernel and with the number of rows that the batch alone would
// have: the bits of its outputs are the same. So small batches share what a command costs: 2 µs, where a row of
// 64-64-64-10 takes 0.3.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "sluice/nn/plan.hpp"
#include "sluice/runtime/device_future.hpp"
#include "sluice/runtime/scheduling_policy.hpp"

namespace sluice::nn::detail {

// How long one batch takes, at best, as the commands of a lane have measured it. Any thread may call.
class batch_time {
public:
    // Of a command with that many whole batches.
    void add(std::uint64_t nanoseconds, std::size_t batches) noexcept;
    // How many batches one command gets: half a millisecond of work, and less near the end, so that `workers`
    // threads end at the same time. One while no time is known.
    std::size_t batches_of_command(std::size_t batches_left, std::size_t workers) const noexcept;

private:
    std::atomic<std::uint64_t> least_ = 0;  // nanoseconds; 0: not known
};

// The commands of one run that use the caller's memory. They are shared with the commands.
class open_commands {
public:
    void add_one();
    void remove_one() noexcept;
    // Blocks until none is left, whether it has run or was dropped.
    void wait_until_none() noexcept;

private:
    std::mutex mutex_;
    std::condition_variable none_;
    std::size_t count_ = 0;
};

// One of them, while it exists.
class open_command {
public:
    explicit open_command(std::shared_ptr<open_commands> in) : in_(std::move(in)) { in_->add_one(); }
    open_command(const open_command&) = delete;  // it is counted once
    open_command& operator=(const open_command&) = delete;
    ~open_command() { in_->remove_one(); }

private:
    const std::shared_ptr<open_commands> in_;
};

// What a group computes.
struct row_group {
    const float* inputs = nullptr;                  // [rows, in features]
    std::shared_ptr<const void> owner = {};         // of the inputs; kept until the command has ended
    std::shared_ptr<std::vector<float>> room = {};  // the outputs, kept likewise; null where they are the caller's
    float* outputs = nullptr;                       // [rows, out features]
    std::size_t rows = 0;
    std::size_t batch = 0;  // rows of each batch; the last one may have fewer
};

// Whether batches of that many rows are put into groups. Then smaller ones are.
bool can_group(const plan& network, const device& on, std::size_t rows) noexcept;

// Submits the command. Does not block. Throws what submitting throws. `open` says when the caller's memory is not used
// any more, also after that.
device_future<std::tuple<>> spawn_group(const plan& network, row_group group, std::shared_ptr<batch_time> time,
                                        std::shared_ptr<open_commands> open, scheduling_policy& policy);

}  // namespace sluice::nn::detail

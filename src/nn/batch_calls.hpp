// SPDX-License-Identifier: Apache-2.0
// batch_calls: consecutive batches as one command of a CPU device, from rows in host memory to rows in host memory. The
// command computes one batch after the other, each by the call that is prepared for its number of rows: the bits of its
// outputs are those that the batch alone would have. So small batches share what a command costs: 2 µs, where a row of
// 64-64-64-10 takes 0.4.
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

#include "nn/prepared_call.hpp"
#include "sluice/base/detail/spin_lock.hpp"
#include "sluice/nn/network.hpp"
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

// Prepared calls of a network for one number of rows: as many as commands run at a time, one for each worker at most.
// Thread safety: all members may be called on any thread.
class calls_of_rows {
public:
    // With one call; blocks. Null where a command cannot make such calls: the network cannot be prepared, its calls are
    // launches, they take much memory, or there is no memory. Throws what network::prepare throws, and
    // errc::shape_mismatch for a network that does not give [rows, out].
    static std::shared_ptr<calls_of_rows> make(const network& of, std::size_t rows, std::size_t in, std::size_t out);
    // Compiles calls, and runs each with zeros, until there are that many, or as many as the device has workers; fewer
    // where there is no memory. Blocks.
    void grow_to(std::size_t calls);

    std::size_t rows() const noexcept { return in_[0]; }

    // One of the calls, for the thread that has it.
    class use {
    public:
        // Waits where all calls are in use.
        explicit use(calls_of_rows& of) : of_(of), call_(of.take()) {}
        use(const use&) = delete;  // it gives the call back
        use& operator=(const use&) = delete;
        ~use() { of_.give_back(std::move(call_)); }

        // The network once, on the calling thread; does not allocate. Throws what network::run and the wait for it
        // throw.
        void run(const float* inputs, float* outputs);

    private:
        calls_of_rows& of_;
        std::unique_ptr<prepared_call> call_;
    };

private:
    calls_of_rows(network of, std::size_t rows, std::size_t in, std::size_t out)
        : of_(std::move(of)), in_{rows, in}, out_{rows, out} {}

    std::unique_ptr<prepared_call> prepare() const;
    std::unique_ptr<prepared_call> take();
    void give_back(std::unique_ptr<prepared_call> one) noexcept;

    const network of_;  // first: the calls point into it
    const std::size_t in_[2], out_[2];
    std::mutex growing_;
    std::size_t made_ = 0, most_ = 0;  // guarded by growing_
    sluice::detail::spin_lock lock_;   // guards what follows
    std::vector<std::unique_ptr<prepared_call>> free_;
};

// Those of one device, for the sizes of batches that came last. Thread safety: as above.
class batch_calls {
public:
    batch_calls(network of, std::size_t in, std::size_t out) : of_(std::move(of)), in_(in), out_(out) {}

    // For that many batches of this many rows. Null where they are commands of their own. Blocks for a size that is
    // new, and where more calls are worth it; throws then what calls_of_rows::make throws.
    std::shared_ptr<calls_of_rows> of_rows(std::size_t rows, std::size_t batches = 1);

private:
    const network of_;
    const std::size_t in_, out_;
    std::mutex mutex_;  // guards what follows
    std::vector<std::pair<std::size_t, std::shared_ptr<calls_of_rows>>> kept_;
};

// What a command computes.
struct rows_of_command {
    const float* inputs = nullptr;                  // [rows, in features]
    std::shared_ptr<const void> owner = {};         // of the inputs; kept until the command has ended
    std::shared_ptr<std::vector<float>> room = {};  // the outputs, kept likewise; null where they are the caller's
    float* outputs = nullptr;                       // [rows, out features]
    std::size_t rows = 0, in = 0, out = 0;
    std::shared_ptr<calls_of_rows> batch = {};  // of each whole batch
    std::shared_ptr<calls_of_rows> rest = {};   // of the last one, where it has fewer rows
};

// Submits the command. Does not block. Throws what submitting throws. `open` says when the caller's memory is not used
// any more, also after that.
device_future<std::tuple<>> spawn_batches(rows_of_command rows, std::shared_ptr<batch_time> time,
                                          std::shared_ptr<open_commands> open, scheduling_policy& policy);

}  // namespace sluice::nn::detail

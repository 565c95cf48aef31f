// SPDX-License-Identifier: Apache-2.0
#include "nn/batch_calls.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "nn/prepared_network.hpp"
#include "sluice/base/error.hpp"
#include "sluice/op/detail/runtime_hooks.hpp"
#include "sluice/op/with_context.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::nn::detail {
namespace {

constexpr std::uint64_t nanoseconds_of_command = 500'000;  // the thread that takes the outputs is woken for each one
// Of the values of one call. Larger batches take memory of the pool, which is given back.
constexpr std::size_t most_bytes_of_call = std::size_t{1} << 20;
constexpr std::size_t most_sizes = 4;  // of batches: whole ones, and the last ones of the latest runs

const std::string name_of_operation = "batches";

// What the command owns. It is destroyed when the command has run, and when it never will.
class running_batches {
public:
    running_batches(rows_of_command rows, std::shared_ptr<batch_time> time, std::shared_ptr<open_commands> open)
        : open_(std::move(open)), rows_(std::move(rows)), time_(std::move(time)) {}

    void run() {
        const auto start = std::chrono::steady_clock::now();
        const std::size_t size = rows_.batch->rows(), batches = rows_.rows / size;
        {
            calls_of_rows::use call(*rows_.batch);
            for (std::size_t i = 0; i < batches; ++i) run(call, i * size);
        }
        const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - start;
        if (batches != 0) time_->add(static_cast<std::uint64_t>(took.count()), batches);
        if (!rows_.rest) return;
        calls_of_rows::use call(*rows_.rest);
        run(call, batches * size);
    }

private:
    void run(calls_of_rows::use& call, std::size_t first) {
        call.run(rows_.inputs + first * rows_.in, rows_.outputs + first * rows_.out);
    }

    const open_command open_;  // first: it ends after the owner of the inputs has been released
    const rows_of_command rows_;
    const std::shared_ptr<batch_time> time_;
};

}  // namespace

void batch_time::add(std::uint64_t nanoseconds, std::size_t batches) noexcept {
    // The least: a thread that was interrupted has measured more.
    const std::uint64_t each = std::max<std::uint64_t>(1, nanoseconds / batches);
    std::uint64_t known = least_.load(std::memory_order_relaxed);
    while ((known == 0 || each < known) && !least_.compare_exchange_weak(known, each, std::memory_order_relaxed)) {
    }
}

std::size_t batch_time::batches_of_command(std::size_t batches_left, std::size_t workers) const noexcept {
    const std::uint64_t each = least_.load(std::memory_order_relaxed);
    if (each == 0) return 1;
    const std::size_t share = batches_left / (2 * std::max<std::size_t>(1, workers));
    return std::max<std::size_t>(1, std::min<std::size_t>(nanoseconds_of_command / each, share));
}

void open_commands::add_one() {
    const std::lock_guard lock(mutex_);
    ++count_;
}

void open_commands::remove_one() noexcept {
    const std::lock_guard lock(mutex_);
    if (--count_ == 0) none_.notify_all();
}

void open_commands::wait_until_none() noexcept {
    std::unique_lock lock(mutex_);
    none_.wait(lock, [this] { return count_ == 0; });
}

std::shared_ptr<calls_of_rows> calls_of_rows::make(const network& of, std::size_t rows, std::size_t in,
                                                   std::size_t out) {
    if (of.inside().on().kind() != device_kind::cpu || rows * (in + out) * sizeof(float) > most_bytes_of_call)
        return nullptr;
    const std::shared_ptr<calls_of_rows> made(new calls_of_rows(of, rows, in, out));
    made->most_ = static_cast<std::size_t>(std::max(1, of.inside().on().properties().compute_units));
    made->grow_to(1);
    return made->made_ != 0 ? made : nullptr;
}

// Null: there is none.
std::unique_ptr<prepared_call> calls_of_rows::prepare() const {
    std::string why_not;
    std::unique_ptr<prepared_call> one;
    try {
        one = try_to_prepare(of_.inside(), prepared_inputs({view_form(io::dtype::f32, in_)}), why_not,
                             most_bytes_of_call);
    } catch (const out_of_memory&) {  // operations take less
        return nullptr;
    }
    if (!one || !one->runs_at_once()) return nullptr;
    const any_tensor& gives = one->outputs().outputs.front();
    if (gives.type() != io::dtype::f32 || !std::ranges::equal(gives.shape(), out_)) {
        throw error(errc::shape_mismatch,
                    of_.inside().from().path.string() + ": the network gives " + to_string(gives) + " for " +
                        std::to_string(in_[0]) + " rows; they depend on each other",
                    {"engine"});
    }
    return one;
}

void calls_of_rows::grow_to(std::size_t calls) {
    const std::lock_guard lock(growing_);
    while (made_ < std::min(calls, most_)) {
        auto one = prepare();
        if (!one) {
            most_ = made_;
            return;
        }
        const sluice::detail::spin_guard guard(lock_);
        free_.reserve(most_);
        free_.push_back(std::move(one));
        ++made_;
    }
}

std::unique_ptr<prepared_call> calls_of_rows::take() {
    for (;;) {
        {
            const sluice::detail::spin_guard guard(lock_);
            if (!free_.empty()) {
                auto one = std::move(free_.back());
                free_.pop_back();
                return one;
            }
        }
        std::this_thread::yield();
    }
}

void calls_of_rows::give_back(std::unique_ptr<prepared_call> one) noexcept {
    const sluice::detail::spin_guard guard(lock_);
    free_.push_back(std::move(one));  // there is room: it was taken from there
}

void calls_of_rows::use::run(const float* inputs, float* outputs) {
    const input_view from(io::dtype::f32, inputs, of_.in_);
    const output_view to(io::dtype::f32, outputs, of_.out_);
    if (!call_->run({&from, 1}, {&to, 1})) call_->outputs().copy_to({&to, 1});
}

std::shared_ptr<calls_of_rows> batch_calls::of_rows(std::size_t rows, std::size_t batches) {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(kept_, rows, [](const auto& each) { return each.first; });
    if (found != kept_.end()) {
        std::rotate(found, found + 1, kept_.end());
    } else {
        auto made = calls_of_rows::make(of_, rows, in_, out_);
        if (kept_.size() == most_sizes) kept_.erase(kept_.begin());
        kept_.emplace_back(rows, std::move(made));
    }
    if (const auto& found_or_made = kept_.back().second) found_or_made->grow_to(batches);
    return kept_.back().second;
}

device_future<std::tuple<>> spawn_batches(rows_of_command rows, std::shared_ptr<batch_time> time,
                                          std::shared_ptr<open_commands> open, scheduling_policy& policy) {
    return spawn(with_context([&](execution_context& context) {
                     const sluice::detail::name_scope name(context, name_of_operation);
                     const auto running =
                         std::make_shared<running_batches>(std::move(rows), std::move(time), std::move(open));
                     context.stream().host_call({"rows"}, {[running] { running->run(); }});
                 }),
                 policy);
}

}  // namespace sluice::nn::detail

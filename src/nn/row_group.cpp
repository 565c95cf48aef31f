// SPDX-License-Identifier: Apache-2.0
#include "nn/row_group.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <utility>

#include "kernels/fused_mlp/fused_mlp_dispatch.hpp"
#include "sluice/op/detail/runtime_hooks.hpp"
#include "sluice/op/with_context.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::nn::detail {
namespace {

using kernels::fused_mlp_call;
using kernels::fused_type;

constexpr std::uint64_t nanoseconds_of_command = 500'000;  // the thread that takes the outputs is woken for each one
// Products of numbers in a batch: some 50 µs. Measured on two cores (bench/results, engine_cpu): in a command of their
// own, 1024 rows of 64-64-64-10, 9 million products, take 0.9 of the time when they are copied next to each other
// first. That does not count where each input has many products.
constexpr std::size_t most_products_of_batch = 6'000'000, many_products_of_input = 500;

const std::string name_of_operation = "all layers";  // as of a plan's command

// What the command owns. It is destroyed when the command has run, and when it never will.
class running_group {
public:
    running_group(const fused_mlp_call& call, row_group group, std::shared_ptr<batch_time> time,
                  std::shared_ptr<open_commands> open)
        : open_(std::move(open)), call_(call), group_(std::move(group)), time_(std::move(time)) {}

    void run() {
        const auto start = std::chrono::steady_clock::now();
        std::size_t batches = 0;
        fused_mlp_call one = call_;
        const std::size_t in = one.form.in_features, out = one.form.out_features;
        for (std::size_t first = 0; first < group_.rows; first += group_.batch, ++batches) {
            one.x = group_.inputs + first * in;
            one.out = group_.outputs + first * out;
            one.rows = std::min(group_.batch, group_.rows - first);
            kernels::fused_mlp_on_cpu(one, fused_type::f32);
        }
        const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - start;
        if (group_.rows % group_.batch == 0) time_->add(static_cast<std::uint64_t>(took.count()), batches);
    }

private:
    const open_command open_;  // first: it ends after the owner of the inputs has been released
    const fused_mlp_call call_;
    const row_group group_;
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

bool can_group(const plan& network, const device& on, std::size_t rows) noexcept {
    if (on.kind() != device_kind::cpu || network.route(rows) != plan_route::fused) return false;
    std::size_t products = 0;
    for (const plan_layer& each : network.layers()) products += each.weight->size();
    return products / network.in_features() >= many_products_of_input ||
           rows <= most_products_of_batch / std::max<std::size_t>(1, products);
}

device_future<std::tuple<>> spawn_group(const plan& network, row_group group, std::shared_ptr<batch_time> time,
                                        std::shared_ptr<open_commands> open, scheduling_policy& policy) {
    return spawn(with_context([&](execution_context& context) {
                     const sluice::detail::name_scope name(context, name_of_operation);
                     const stream on = context.stream();
                     const packed_mlp<float>& packed = *network.fused();
                     std::size_t floats = 0;
                     for (const std::size_t rows : {std::min(group.batch, group.rows), group.rows % group.batch})
                         floats =
                             std::max(floats, kernels::fused_mlp_scratch_floats(rows, packed.form(), fused_type::f32));
                     const storage_ref scratch = on.workspace(floats * sizeof(float));
                     const fused_mlp_call call{nullptr, nullptr,       packed.image().device_data(),
                                               0,       packed.form(), static_cast<float*>(scratch->data())};
                     const std::array accesses{memory_access{packed.image().memory(), access_mode::read},
                                               memory_access{scratch.get(), access_mode::write}};
                     const auto running =
                         std::make_shared<running_group>(call, std::move(group), std::move(time), std::move(open));
                     on.host_call({"fused_mlp", accesses}, {[running] { running->run(); }});
                 }),
                 policy);
}

}  // namespace sluice::nn::detail

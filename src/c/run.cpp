// SPDX-License-Identifier: Apache-2.0
#include "c/run.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "c/device_run.hpp"
#include "c/types.hpp"
#include "sluice/runtime/sync.hpp"

using namespace sluice;
using namespace sluice::c;

namespace sluice::c {
namespace {

// Whether this thread runs a callback.
thread_local bool is_in_callback = false;

// Gives a tensor whose elements no other tensor has.
nn::any_tensor unshared(nn::any_tensor each) {
    if (each.host_owner().use_count() == 1) return each;
    std::byte* to = nullptr;
    nn::any_tensor copy = nn::any_tensor::make_on_host(each.type(), each.shape(), to);
    if (each.size_bytes() != 0) std::memcpy(to, each.bytes().data(), each.size_bytes());
    return copy;
}

std::vector<std::int64_t> lengths_of(const nn::any_tensor& of) { return {of.shape().begin(), of.shape().end()}; }

void require_fitting(const std::vector<nn::any_tensor>& made, std::span<const sluice_buffer> to,
                     std::string_view function) {
    for (std::size_t i = 0; i < made.size(); ++i) {
        const std::vector<std::size_t> shape(to[i].shape, to[i].shape + to[i].rank);  // no length is negative
        if (type_from(made[i].type()) == to[i].type && made[i].shape() == shape) continue;
        refuse(function,
               "output " + std::to_string(i) + " is " + to_string(made[i]) + ", and is given room for " +
                   sluice_type_name(to[i].type) + " " + nn::to_string(std::span(shape)),
               errc::shape_mismatch);
    }
}

}  // namespace

scheduling_policy& policy_for(const loaded_network& network, const std::vector<nn::any_tensor>& inputs) {
    const bool is_from_device =
        network.of_device_inputs && std::ranges::any_of(inputs, [](const auto& each) { return each.is_on_device(); });
    if (is_from_device) return *network.of_device_inputs;
    return network.pool;
}

std::vector<nn::any_tensor> compute(const loaded_network& network, const sluice_tensor* inputs, std::size_t count,
                                    std::string_view function) {
    call_views views;
    if (views.take_inputs(network, inputs, count, function)) return network.network(views.inputs());
    std::vector<nn::any_tensor> given = inputs_from(network, inputs, count, function);
    scheduling_policy& policy = policy_for(network, given);
    return sync(network.network.run(std::move(given)), policy);
}

}  // namespace sluice::c

sluice_result::sluice_result(std::vector<nn::any_tensor> values) : outputs(std::move(values)) {
    for (nn::any_tensor& each : outputs) {
        each = unshared(std::move(each));
        shapes.push_back(lengths_of(each));
    }
}

sluice_result::~sluice_result() = default;

void sluice_result::take_device_outputs(std::shared_ptr<const loaded_network> of, std::vector<nn::any_tensor> values) {
    outputs = std::move(values);
    shapes.clear();
    for (const nn::any_tensor& each : outputs) shapes.push_back(lengths_of(each));
    lent = std::make_unique<lent_memory>(std::move(of), outputs);
}

// --- blocking runs -------------------------------------------------------------------------------------------

sluice_status sluice_network_run(const sluice_network* network, const sluice_tensor* inputs, size_t count,
                                 sluice_result** result) {
    return guarded([&] {
        const std::string_view here = "sluice_network_run";
        const loaded_network& what = *require(network, here, "network").held;
        require(result, here, "result");
        *result = new sluice_result(compute(what, inputs, count, here));
    });
}

sluice_status sluice_network_run_into(const sluice_network* network, const sluice_tensor* inputs, size_t count,
                                      const sluice_buffer* outputs, size_t output_count) {
    return guarded([&] {
        const std::string_view here = "sluice_network_run_into";
        const loaded_network& what = *require(network, here, "network").held;
        call_views views;
        const bool are_inputs_viewed = views.take_inputs(what, inputs, count, here);
        const bool are_outputs_viewed = views.take_outputs(what, outputs, output_count, here);
        if (are_inputs_viewed && are_outputs_viewed) return what.network(views.inputs(), views.outputs());
        const std::vector<nn::any_tensor> made = compute(what, inputs, count, here);
        require_fitting(made, {outputs, output_count}, here);
        for (std::size_t i = 0; i < made.size(); ++i)
            if (made[i].size_bytes() != 0) std::memcpy(outputs[i].data, made[i].bytes().data(), made[i].size_bytes());
    });
}

sluice_status sluice_result_count(const sluice_result* result, size_t* count) {
    return guarded([&] {
        const std::string_view here = "sluice_result_count";
        const std::size_t all = require(result, here, "result").outputs.size();
        require(count, here, "count") = all;
    });
}

sluice_status sluice_result_output(const sluice_result* result, size_t index, sluice_buffer* output) {
    return guarded([&] {
        const std::string_view here = "sluice_result_output";
        const sluice_result& of = require(result, here, "result");
        require(output, here, "output");
        if (index >= of.outputs.size()) {
            refuse(here,
                   "there is no output " + std::to_string(index) + "; there are " + std::to_string(of.outputs.size()));
        }
        const nn::any_tensor& found = of.outputs[index];
        // No other tensor has these elements: see unshared.
        void* const data = of.lent ? found.memory()->data() : const_cast<std::byte*>(found.bytes().data());
        *output = {data, of.shapes[index].data(), of.shapes[index].size(), type_from(found.type())};
    });
}

void sluice_result_destroy(sluice_result* result) {
    if (result != nullptr && result->lent != nullptr && !result->origin.is_here()) return;
    delete result;
}

// --- runs that are submitted ---------------------------------------------------------------------------------

sluice_run::sluice_run(std::shared_ptr<const loaded_network> of, std::vector<nn::any_tensor> inputs,
                       sluice_callback callback, void* context)
    : network_(std::move(of)), callback_(callback), context_(context) {
    scheduling_policy& policy = policy_for(*network_, inputs);
    future_.emplace(spawn(network_->network.run(std::move(inputs)), policy));
    notice_ = sluice::detail::completion_notice::make(
        future_->submission(), nullptr, [](void* whom) noexcept { static_cast<sluice_run*>(whom)->end(); }, this);
}

// On the completion thread.
void sluice_run::end() noexcept {
    std::unique_ptr<sluice_result> made;
    failure why;
    try {
        made = std::make_unique<sluice_result>(std::move(*future_).get());
    } catch (...) {
        why = current_failure();
    }
    future_.reset();
    {
        const std::lock_guard lock(mutex_);
        result_ = std::move(made);
        failure_ = std::move(why);
        is_over_ = true;
    }
    changed_.notify_all();
    if (callback_ != nullptr) {
        is_in_callback = true;
        callback_(this, context_);
        is_in_callback = false;
    }
    release();
}

bool sluice_run::is_over(std::unique_lock<std::mutex>& lock, std::int64_t nanoseconds) {
    const auto over = [this] { return is_over_; };
    if (is_over_ || nanoseconds == 0) return is_over_;
    if (is_in_callback) {
        refuse("sluice_run_wait",
               "a callback runs on the thread that ends runs, so a wait in it would not end: ask with 0 nanoseconds");
    }
    if (nanoseconds == SLUICE_FOREVER) {
        changed_.wait(lock, over);
        return true;
    }
    // A time that the clock can still count.
    constexpr std::int64_t century = std::int64_t{100} * 365 * 24 * 3600 * 1'000'000'000;
    return changed_.wait_for(lock, std::chrono::nanoseconds(std::min(nanoseconds, century)), over);
}

sluice_status sluice_run::wait(std::int64_t nanoseconds, sluice_result** result) {
    if (nanoseconds < 0 && nanoseconds != SLUICE_FOREVER)
        refuse("sluice_run_wait", "cannot wait for " + std::to_string(nanoseconds) + " nanoseconds");
    std::unique_lock lock(mutex_);
    if (!is_over(lock, nanoseconds)) {
        return report({SLUICE_TIMED_OUT, "sluice_run_wait: the run is not complete after " +
                                             std::to_string(nanoseconds) + " nanoseconds"});
    }
    if (failure_.status != SLUICE_OK) return report(failure_);
    if (result == nullptr) return SLUICE_OK;
    if (std::exchange(is_taken_, true)) refuse("sluice_run_wait", "the run has given its result before");
    *result = result_.release();
    return SLUICE_OK;
}

sluice_status sluice_network_submit(const sluice_network* network, const sluice_tensor* inputs, size_t count,
                                    sluice_callback callback, void* context, sluice_run** run) {
    return guarded([&] {
        const std::string_view here = "sluice_network_submit";
        const std::shared_ptr<const loaded_network>& what = require(network, here, "network").held;
        require(run, here, "run");
        std::vector<nn::any_tensor> given = inputs_from(*what, inputs, count, here);
        *run = new sluice_run(what, std::move(given), callback, context);
        (*run)->start();
    });
}

sluice_status sluice_run_wait(const sluice_run* run, int64_t nanoseconds, sluice_result** result) {
    sluice_status status = SLUICE_OK;
    const sluice_status refused = guarded([&] {
        // Waiting changes no more of a run than its lock and who has its result.
        status = const_cast<sluice_run&>(require(run, "sluice_run_wait", "run")).wait(nanoseconds, result);
    });
    return refused != SLUICE_OK ? refused : status;
}

void sluice_run_destroy(sluice_run* run) {
    if (run != nullptr && run->birth.is_here()) run->release();
}

// SPDX-License-Identifier: Apache-2.0
#include "nn/direct_calls.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "nn/landed_outputs.hpp"
#include "nn/prepared_network.hpp"
#include "sluice/base/error.hpp"
#include "sluice/nn/kept_limit.hpp"
#include "sluice/op/with_context.hpp"
#include "sluice/runtime/detail/wait_checks.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice::nn::detail {
namespace {

using sluice::detail::spin_guard;

// A network whose inputs have ever other shapes must not fill the memory with what it will not use again.
constexpr std::size_t most_seen = 64;

any_tensor on_host(const input_view& from) {
    std::byte* to = nullptr;
    any_tensor made = any_tensor::make_on_host(from.form().type(), lengths_of(from.form()), to);
    if (from.form().size_bytes() != 0) std::memcpy(to, from.data(), from.form().size_bytes());
    return made;
}

// The caller waits before the numbers may change.
any_tensor uploaded(execution_context& context, const input_view& from) {
    const std::size_t bytes = from.form().size_bytes();
    const command_info info{"upload"};
    storage_ref to = context.stream().allocate(std::max<std::size_t>(bytes, 1), info);
    if (bytes != 0) sluice::detail::upload_bytes(context.stream(), *to, from.data(), bytes, {}, info.location);
    return any_tensor(from.form().type(), lengths_of(from.form()), std::move(to));
}

// Whether what a recording of the network does serves each call: no number of it depends on the inputs' elements, or on
// chance.
bool is_same_each_time(const prepared_network& network, std::span<const view_form> inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i)
        if (network.is_host_input(i) || inputs[i].size_bytes() == 0) return false;
    return !has_step(network.body(), [](const step& each) { return each.what->is_random; });
}

}  // namespace

direct_calls::direct_calls(const prepared_network& of, device& on) : of_(of), on_(on), calls_(kept_limit::current()) {}
direct_calls::~direct_calls() = default;

bool direct_calls::is_repeated(std::span<const input_view> inputs) {
    std::vector<view_form> forms = forms_of(inputs);
    std::vector<view_form> dropped;  // destroyed without the lock
    const spin_guard lock(guard_);
    if (cannot_compile_) return false;
    if (calls_.has(inputs) || std::ranges::find(seen_, forms) != seen_.end()) return true;
    if (seen_.size() == most_seen) {
        dropped = std::move(seen_.front());
        seen_.erase(seen_.begin());
    }
    seen_.push_back(std::move(forms));
    return false;
}

kept_calls::use direct_calls::add(std::span<const input_view> inputs) {
    std::unique_ptr<direct_call> made;
    try {
        made = std::make_unique<direct_call>(of_, on_, inputs);
    } catch (const error& refusal) {
        if (refusal.code() != errc::graph_refused) throw;
        const spin_guard lock(guard_);
        cannot_compile_ = true;
        return {};
    }
    {
        const std::vector<view_form> forms = forms_of(inputs);
        const spin_guard lock(guard_);
        std::erase(seen_, forms);
    }
    return calls_.add(std::move(made), inputs);
}

// As an operation, for shapes that may not come again. Its inputs are on the device where the network lets them be, as
// they are for a compiled network: what is wrong with them is found in the same place.
landed_outputs direct_calls::call_once(std::span<const input_view> inputs) {
    const stream_lease on(on_);
    landed_outputs landed;
    auto submitted = with_context([&](execution_context& context) {
        std::vector<any_tensor> given;
        for (const input_view& each : inputs) {
            const bool is_for_host = given.size() < of_.from().body.inputs.size() && of_.is_host_input(given.size());
            given.push_back(is_for_host ? on_host(each) : uploaded(context, each));
        }
        landed = submit_run(of_, context, std::move(given));
    });
    sync_on(std::move(submitted), *on);
    return landed;
}

// None: the network is not to be compiled for these inputs, or not yet.
kept_calls::use direct_calls::use_for(std::span<const input_view> inputs) {
    kept_calls::use found = calls_.find(inputs);
    if (found) return found;
    sluice::detail::require_may_wait(on_, "network");
    return is_repeated(inputs) && is_same_each_time(of_, forms_of(inputs)) ? add(inputs) : kept_calls::use();
}

template <typename Require, typename Deliver>
auto direct_calls::answer(std::span<const input_view> inputs, std::span<const output_view> to, const Require& require,
                          const Deliver& deliver) {
    on_.throw_if_refusing();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i].data() == nullptr && inputs[i].form().size_bytes() != 0)
            throw error(errc::invalid_argument,
                        of_.from().path.string() + ": the view of input " + std::to_string(i) + " has no memory");
    }
    const kept_calls::use one = use_for(inputs);
    if (!one) {
        const landed_outputs landed = call_once(inputs);
        require(landed);
        return deliver(landed, false);
    }
    require((*one).outputs());
    const bool is_written = (*one).run(inputs, to);
    return deliver((*one).outputs(), is_written);
}

void direct_calls::operator()(std::span<const input_view> inputs, std::span<const output_view> outputs) {
    answer(
        inputs, outputs,
        [&](const landed_outputs& landed) { landed.require_fitting(of_.from().body.outputs, outputs); },
        [&](const landed_outputs& landed, bool is_written) {
            if (!is_written) landed.copy_to(outputs);
        });
}

std::vector<any_tensor> direct_calls::operator()(std::span<const input_view> inputs) {
    return answer(
        inputs, {}, [](const landed_outputs&) {}, [](const landed_outputs& landed, bool) { return landed(); });
}

}  // namespace sluice::nn::detail

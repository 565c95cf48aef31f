// SPDX-License-Identifier: Apache-2.0
#include "nn/direct_calls.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>
#include <variant>

#include "graph/address_sites.hpp"
#include "nn/landed_outputs.hpp"
#include "nn/prepared_network.hpp"
#include "runtime/graph_difference.hpp"
#include "runtime/graph_replay.hpp"
#include "runtime/runs_at_once.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/graph/compiled_graph.hpp"
#include "sluice/op/with_context.hpp"
#include "sluice/runtime/detail/command_queue.hpp"
#include "sluice/runtime/detail/wait_checks.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice::nn::detail {
namespace {

using sluice::detail::compiled_graph;
using sluice::detail::graph_recording;
using sluice::detail::spin_guard;

// A network whose inputs have ever other shapes must not fill the memory with what it will not use again.
constexpr std::size_t most_calls = 64, most_seen = 64;

bool fit(std::span<const view_form> forms, std::span<const input_view> inputs) noexcept {
    return std::ranges::equal(forms, inputs, {}, {}, &input_view::form);
}

std::vector<view_form> forms_of(std::span<const input_view> inputs) {
    std::vector<view_form> made;
    for (const input_view& each : inputs) made.push_back(each.form());
    return made;
}

// Device memory that the host writes needs no upload.
std::vector<sluice::detail::graph_input> graph_inputs_of(std::span<const view_form> inputs, const device& on) {
    std::vector<sluice::detail::graph_input> made;
    for (const view_form& each : inputs)
        made.push_back({.bytes = each.size_bytes(), .is_from_host = !on.shares_host_memory()});
    return made;
}

// Whether the command reads its input wherever that begins: some read vectors from aligned addresses.
bool reads_anywhere(const graph_node& node) {
    return std::holds_alternative<copy_command>(node.what) || node.name == "fused_mlp";
}
// What it may ask for: as much as the elements of any type.
bool is_aligned(const void* at) { return reinterpret_cast<std::uintptr_t>(at) % alignof(std::max_align_t) == 0; }

std::vector<std::size_t> lengths_of(const view_form& of) { return {of.shape().begin(), of.shape().end()}; }

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

// Of the graph, and of those inside its steps.
template <typename Predicate>
bool has_step(const prepared_graph& in, const Predicate& is_meant) {
    return std::ranges::any_of(in.steps, [&](const step& each) {
        return is_meant(each) ||
               std::ranges::any_of(each.inner, [&](const auto& inner) { return has_step(*inner.second, is_meant); });
    });
}

// Whether what a recording of the network does serves each call: no number of it depends on the inputs' elements, or on
// chance.
bool is_same_each_time(const prepared_network& network, std::span<const view_form> inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i)
        if (network.is_host_input(i) || inputs[i].size_bytes() == 0) return false;
    return !has_step(network.body(), [](const step& each) { return each.what->is_random; });
}

}  // namespace

// The network, compiled for inputs of some shapes, with memory for one call at a time.
class direct_calls::call {
public:
    // Throws what compile and prepared_network::run throw.
    call(const prepared_network& of, device& on, std::span<const input_view> inputs)
        : inputs_(forms_of(inputs)),
          of_(of),
          on_(on),
          core_(on, graph_inputs_of(inputs_, on), {.name = "network"}, source_location::current()) {
        core_.compile(record_);
        // Functions of the host are recorded for one launch.
        if (core_.commands().has_host_calls())
            throw error(errc::graph_refused, "the network calls functions of the host", {"network", on.name()});
        for (const view_form& each : inputs_) {
            blocks_.push_back(on.shares_host_memory() ? on_->allocate(each.size_bytes(), {"input"})
                                                      : on_->allocate_host(each.size_bytes(), {"input"}));
        }
    }

    std::span<const view_form> inputs() const noexcept { return inputs_; }

    // Their elements are those of the latest run.
    const landed_outputs& outputs() const noexcept { return landed_; }

    void run(std::span<const input_view> inputs) {
        for (std::size_t i = 0; i < inputs.size(); ++i) {
            if (list_ != nullptr && lead(i, inputs[i].data())) continue;
            std::memcpy(blocks_[i]->data(), inputs[i].data(), inputs_[i].size_bytes());
        }
        if (at_once_ != nullptr) {
            if (std::exception_ptr failure = at_once_->run_at_once(*list_)) std::rethrow_exception(std::move(failure));
        } else {
            launch();
        }
    }

    bool is_busy = false;    // both guarded by the owner's lock
    std::uint64_t used = 0;  // the turn of the latest call

private:
    void record(graph_recording& recording) {
        ++recordings_;
        std::vector<any_tensor> given;
        for (std::size_t i = 0; i < inputs_.size(); ++i)
            given.emplace_back(inputs_[i].type(), lengths_of(inputs_[i]), storage_ref(recording.input(i)[0]));
        recording.forget_inputs();
        landed_outputs made = submit_run(of_, recording.context(), std::move(given));
        recording.add_output(made.block.get());
        if (recording.is_for_comparison()) return;
        made.block = {};
        landed_ = std::move(made);
    }

    // On a stream. On a device that can run the commands at once, later calls do: the inputs and outputs stay where
    // they are now, and the wait has shown that the constants are there.
    void launch() {
        bool is_understood = false;
        auto submitted = with_context([&](execution_context& context) {
            const std::lock_guard lock(core_.mutex());
            std::vector<sluice::detail::launch_input> feeds;
            for (const storage_ref& each : blocks_) feeds.push_back({.memory = each});
            landed_.block = {};
            const std::size_t before = recordings_;
            landed_.block = core_.submit(context, feeds, record_).outputs[0];
            is_understood = recordings_ == before;
            core_.forget_outputs();
        });
        sync_on(std::move(submitted), *on_);
        // Recordings that differ in more than addresses are made again for each launch. And an operator of the user's
        // may use memory that others write: only a launch is ordered after them.
        if (!is_understood || has_step(of_.body(), [](const step& each) { return each.what->own != nullptr; })) return;
        at_once_ = dynamic_cast<sluice::detail::runs_at_once*>(&on_->queue().interpreter());
        if (at_once_ == nullptr) return;
        list_ = sluice::detail::make_replay_list(core_.commands());
        for (std::size_t i = 0; i < inputs_.size(); ++i) {
            input_use& made = uses_.emplace_back(input_use{{}, blocks_[i]->data()});
            const auto* const sites = core_.input_sites(i);
            const auto is_read = [&](const auto& site) { return reads_anywhere(list_->graph.nodes[site.node]); };
            if (sites != nullptr && std::ranges::all_of(*sites, is_read)) made.sites = *sites;
        }
    }

    // Has the commands of the list read an input where it is, instead of a copy of it. False if they read the copy.
    bool lead(std::size_t input, const void* to) {
        input_use& use = uses_[input];
        if (use.sites.empty()) return false;
        const bool is_direct = is_aligned(to);
        void* const now = is_direct ? const_cast<void*>(to) : blocks_[input]->data();  // they only read it
        if (use.now != now) {
            for (const sluice::detail::address_site& each : use.sites) {
                sluice::detail::set_address_in(list_->graph, each.node, each.at,
                                               static_cast<std::byte*>(now) + each.offset);
            }
            use.now = now;
        }
        return is_direct;
    }

    // Where the list's commands have an input's address; nowhere, if they must read the copy.
    struct input_use {
        std::vector<sluice::detail::address_site> sites;
        const void* now;
    };

    const std::vector<view_form> inputs_;
    const prepared_network& of_;
    const stream_lease on_;
    std::size_t recordings_ = 0;
    landed_outputs landed_;            // of the latest call
    std::vector<storage_ref> blocks_;  // copies of the inputs
    const sluice::detail::graph_function record_ = [this](graph_recording& recording) { record(recording); };
    compiled_graph core_;
    sluice::detail::runs_at_once* at_once_ = nullptr;    // the stream's, from the first launch on
    std::shared_ptr<sluice::detail::replay_list> list_;  // of this call only
    std::vector<input_use> uses_;
};

struct direct_calls::return_to_idle {
    direct_calls& of;
    call& one;

    ~return_to_idle() {
        const spin_guard lock(of.guard_);
        one.is_busy = false;
    }
};

direct_calls::direct_calls(const prepared_network& of, device& on) noexcept : of_(of), on_(on) {}
direct_calls::~direct_calls() = default;

direct_calls::call* direct_calls::take_idle(std::span<const input_view> inputs) noexcept {
    const spin_guard lock(guard_);
    for (const auto& each : calls_) {
        if (each->is_busy || !fit(each->inputs(), inputs)) continue;
        each->is_busy = true;
        each->used = ++turn_;
        return each.get();
    }
    return nullptr;
}

bool direct_calls::is_repeated(std::span<const input_view> inputs) {
    std::vector<view_form> forms = forms_of(inputs);
    std::vector<view_form> dropped;  // destroyed without the lock
    const spin_guard lock(guard_);
    if (cannot_compile_) return false;
    const auto is_known = [&](const auto& each) { return fit(each, inputs); };
    if (std::ranges::any_of(seen_, is_known) ||
        std::ranges::any_of(calls_, [&](const auto& each) { return fit(each->inputs(), inputs); }))
        return true;
    if (seen_.size() == most_seen) {
        dropped = std::move(seen_.front());
        seen_.erase(seen_.begin());
    }
    seen_.push_back(std::move(forms));
    return false;
}

direct_calls::call* direct_calls::add(std::span<const input_view> inputs) {
    std::unique_ptr<call> made;
    try {
        made = std::make_unique<call>(of_, on_, inputs);
    } catch (const error& refusal) {
        if (refusal.code() != errc::graph_refused) throw;
        const spin_guard lock(guard_);
        cannot_compile_ = true;
        return nullptr;
    }
    std::unique_ptr<call> dropped;  // destroyed without the lock
    const spin_guard lock(guard_);
    std::erase_if(seen_, [&](const auto& each) { return fit(each, inputs); });
    if (calls_.size() >= most_calls) {
        const auto oldest =
            std::ranges::min_element(calls_, {}, [](const auto& each) { return std::pair(each->is_busy, each->used); });
        if ((*oldest)->is_busy) return nullptr;
        dropped = std::exchange(*oldest, std::move(calls_.back()));
        calls_.pop_back();
    }
    made->is_busy = true;
    made->used = ++turn_;
    calls_.push_back(std::move(made));
    return calls_.back().get();
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

template <typename Require, typename Deliver>
auto direct_calls::answer(std::span<const input_view> inputs, const Require& require, const Deliver& deliver) {
    on_.throw_if_refusing();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i].data() == nullptr && inputs[i].form().size_bytes() != 0)
            throw error(errc::invalid_argument,
                        of_.from().path.string() + ": the view of input " + std::to_string(i) + " has no memory");
    }
    call* one = take_idle(inputs);
    if (one == nullptr) {
        sluice::detail::require_may_wait(on_, "network");
        if (is_repeated(inputs) && is_same_each_time(of_, forms_of(inputs))) one = add(inputs);
    }
    if (one == nullptr) {
        const landed_outputs landed = call_once(inputs);
        require(landed);
        return deliver(landed);
    }
    const return_to_idle after{*this, *one};
    require(one->outputs());
    one->run(inputs);
    return deliver(one->outputs());
}

void direct_calls::operator()(std::span<const input_view> inputs, std::span<const output_view> outputs) {
    answer(
        inputs, [&](const landed_outputs& landed) { landed.require_fitting(of_.from().body.outputs, outputs); },
        [&](const landed_outputs& landed) { landed.copy_to(outputs); });
}

std::vector<any_tensor> direct_calls::operator()(std::span<const input_view> inputs) {
    return answer(inputs, [](const landed_outputs&) {}, [](const landed_outputs& landed) { return landed(); });
}

}  // namespace sluice::nn::detail

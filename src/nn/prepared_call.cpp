// SPDX-License-Identifier: Apache-2.0
#include "nn/prepared_call.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <utility>
#include <variant>
#include <vector>

#include "nn/prepared_network.hpp"
#include "runtime/graph_difference.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/nn/row_independence.hpp"
#include "sluice/op/with_context.hpp"
#include "sluice/runtime/detail/command_queue.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/graph_program.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::nn::detail {
namespace {

std::size_t bytes_of_row(const view_form& of) { return of.size_bytes() / of.shape()[0]; }

// Device memory that the host writes needs no upload.
std::vector<sluice::detail::graph_input> graph_inputs_of(std::span<const view_form> inputs,
                                                         std::span<const std::size_t> pieces, const device& on) {
    std::vector<sluice::detail::graph_input> made;
    for (const view_form& each : inputs) {
        made.push_back({.bytes = each.size_bytes(), .is_from_host = !on.shares_host_memory()});
        for (const std::size_t rows : pieces) made.back().pieces.push_back(rows * bytes_of_row(each));
    }
    return made;
}

// What each command may ask for: as much as the elements of any type. It reads and writes no byte beyond them.
bool is_aligned(const void* at) { return reinterpret_cast<std::uintptr_t>(at) % alignof(std::max_align_t) == 0; }

}  // namespace

std::vector<view_form> forms_of(std::span<const input_view> inputs) {
    std::vector<view_form> made;
    for (const input_view& each : inputs) made.push_back(each.form());
    return made;
}

bool has_few_that_decide(const prepared_network& network, std::size_t input, const view_form& form) noexcept {
    return input < network.body().inputs.size() && network.is_host_input(input) &&
           form.size_bytes() <= most_bytes_that_decide;
}

prepared_inputs::prepared_inputs(const prepared_network& network, std::span<const input_view> inputs)
    : prepared_inputs(forms_of(inputs)) {
    for (std::size_t i = 0; i < inputs.size(); ++i)
        if (has_few_that_decide(network, i, forms[i])) numbers[i] = host_copy(inputs[i]);
}

bool prepared_inputs::are(std::span<const input_view> inputs) const noexcept {
    if (!std::ranges::equal(forms, inputs, {}, {}, &input_view::form)) return false;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        const std::span<const std::byte> its = numbers[i].bytes();
        if (!its.empty() && std::memcmp(its.data(), inputs[i].data(), its.size()) != 0) return false;
    }
    return true;
}

bool prepared_inputs::decide_all(const prepared_network& network) const noexcept {
    for (std::size_t i = 0; i < forms.size(); ++i)
        if (network.is_host_input(i) && !numbers[i]) return false;
    return true;
}

std::string why_not_prepared(const prepared_network& network, const prepared_inputs& inputs) {
    for (std::size_t i = 0; i < inputs.forms.size(); ++i) {
        const std::string name = "input " + in_quotes(network.from().body.inputs[i].name);
        if (network.is_host_input(i) && !inputs.numbers[i])
            return "the numbers of its " + name + " decide about shapes or about what is run, and are not fixed";
        if (inputs.forms[i].size_bytes() == 0) return "its " + name + " has no elements";
    }
    const auto is_random = [](const step& each) { return each.what->is_random; };
    return has_step(network.body(), is_random) ? "it draws random numbers" : std::string();
}

prepared_call::prepared_call(const prepared_network& of, prepared_inputs inputs, std::vector<std::size_t> pieces)
    : for_(std::move(inputs)),
      pieces_(std::move(pieces)),
      of_(of),
      on_(of.on()),
      core_(of.on(), graph_inputs_of(for_.forms, pieces_, of.on()), {.name = "network"}, source_location::current()) {
    device& on = of.on();
    core_.compile(record_);
    // Functions of the host are recorded for one launch.
    if (core_.commands().has_host_calls())
        throw error(errc::graph_refused, "the network calls functions of the host", {"network", on.name()});
    for (const view_form& each : for_.forms) {
        blocks_.push_back(on.shares_host_memory() ? on_->allocate(each.size_bytes(), {"input"})
                                                  : on_->allocate_host(each.size_bytes(), {"input"}));
        bytes_ += each.size_bytes();
    }
    for (const any_tensor& each : landed_.outputs) bytes_ += landed_outputs::aligned(each.size_bytes());
    bytes_ += core_.memory_bytes();
    // The commands, and the copy that is run at once: of a Loop with many rounds they are more than the values.
    for (const graph_node& each : core_.commands().nodes)
        bytes_ += 2 * (sizeof(graph_node) + core_.commands().closure(each).size());
}

bool prepared_call::run(std::span<const input_view> inputs, std::span<const output_view> to) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (at_once_ != nullptr && lead_input(i, inputs[i].data())) continue;
        std::memcpy(blocks_[i]->data(), inputs[i].data(), for_.forms[i].size_bytes());
    }
    if (at_once_ == nullptr) {
        launch();
        return false;
    }
    const bool is_led = may_lead(inputs, to);
    for (std::size_t i = 0; i < outputs_.size(); ++i) lead_output(outputs_[i], is_led ? to[i].data() : nullptr);
    if (std::exception_ptr failure = at_once_->run_at_once(*list_)) std::rethrow_exception(std::move(failure));
    return is_led;
}

output_view prepared_call::input(std::size_t index) const {
    return {for_.forms[index].type(), blocks_[index]->data(), for_.forms[index].shape()};
}

input_view prepared_call::output(std::size_t index) const {
    const any_tensor& its = landed_.outputs[index];
    return {its.type(), landed_.elements_of(index), its.shape()};
}

void prepared_call::run() {
    if (at_once_ == nullptr) {
        launch();
    } else if (std::exception_ptr failure = at_once_->run_at_once(*list_)) {
        std::rethrow_exception(std::move(failure));
    }
    landed_.require_passed_checks();
}

// The first run is a launch, and the second one is this thread's own. What zeros are refused for may be right for other
// numbers: then the first run of the caller's is the launch.
void prepared_call::try_out() {
    for (std::size_t i = 0; i < for_.forms.size(); ++i) std::memset(blocks_[i]->data(), 0, for_.forms[i].size_bytes());
    try {
        run();
        if (at_once_ != nullptr) run();
    } catch (const error& failure) {
        const bool is_of_numbers = failure.code() == errc::out_of_range || failure.code() == errc::invalid_argument;
        if (!is_of_numbers || (!landed_.block && landed_.block_bytes() != 0)) throw;
    }
    clear_outputs();
}

void prepared_call::clear_outputs() noexcept {
    if (landed_.block) std::memset(landed_.block->data(), 0, landed_.block_bytes());
}

void prepared_call::record(sluice::detail::graph_recording& recording) {
    ++recordings_;
    std::vector<std::vector<any_tensor>> given(std::max<std::size_t>(1, pieces_.size()));
    for (std::size_t p = 0; p < given.size(); ++p) {
        for (std::size_t i = 0; i < for_.forms.size(); ++i) {
            if (is_fixed(i)) {
                given[p].push_back(for_.numbers[i]);
                continue;
            }
            std::vector<std::size_t> shape = lengths_of(for_.forms[i]);
            if (!pieces_.empty()) shape[0] = pieces_[p];
            given[p].emplace_back(for_.forms[i].type(), std::move(shape), storage_ref(recording.input(i)[p]));
        }
    }
    recording.forget_inputs();
    landed_outputs made = pieces_.empty() ? submit_run(of_, recording.context(), std::move(given[0]))
                                          : submit_runs(of_, recording.context(), std::move(given));
    recording.add_output(made.block.get());
    if (recording.is_for_comparison()) return;
    made.block = {};
    landed_ = std::move(made);
}

// On a stream. On a device that can run the commands at once, later calls do: the inputs and outputs stay where
// they are now, and the wait has shown that the constants are there.
void prepared_call::launch() {
    bool is_understood = false;
    auto submitted = with_context([&](execution_context& context) {
        const auto submit = [&] {
            std::vector<sluice::detail::launch_input> feeds;
            feeds.reserve(blocks_.size());
            for (const storage_ref& each : blocks_) feeds.push_back({.memory = each});
            landed_.block = {};
            const std::size_t before = recordings_;
            landed_.block = core_.submit(context, feeds, record_).outputs[0];
            is_understood = recordings_ == before;
            core_.forget_outputs();
        };
        core_.alone(submit);
    });
    sync_on(std::move(submitted), *on_);
    // Recordings that differ in more than addresses are made again for each launch. And an operator of the user's
    // may use memory that others write: only a launch is ordered after them.
    if (!is_understood || has_step(of_.body(), [](const step& each) { return each.what->own != nullptr; })) return;
    auto* const at_once = dynamic_cast<sluice::detail::runs_at_once*>(&on_->queue().interpreter());
    if (at_once == nullptr) return;
    uses_.clear();  // of a launch that found no memory
    list_ = sluice::detail::make_replay_list(core_.commands());
    for (std::size_t i = 0; i < for_.forms.size(); ++i) {
        input_use& made = uses_.emplace_back(input_use{{}, blocks_[i]->data()});
        if (const auto* const sites = core_.input_sites(i)) made.sites = *sites;
    }
    outputs_ = uses_of_outputs();
    for (output_use& each : outputs_) lead_output(each, nullptr);
    at_once_ = at_once;  // last: from here on the list is used
}

bool prepared_call::is_input(const void* at) const noexcept {
    return std::ranges::any_of(blocks_, [&](const storage_ref& each) { return each->data() == at; });
}

// From the copies that end the list, one for each output. What computes an output writes it where the copy would; only
// an output that is an input, a constant, or a part of something is copied. None, where anything else comes after one
// of the copies, or must be looked at before the caller's memory changes.
std::vector<prepared_call::output_use> prepared_call::uses_of_outputs() {
    const auto& nodes = list_->graph.nodes;
    const std::size_t count = landed_.outputs.size();
    if (!landed_.checks.empty() || count > nodes.size()) return {};
    // Else nothing says which words of the commands are addresses.
    bool is_known = false;
    for (std::size_t i = 0; i < for_.forms.size(); ++i) is_known = is_known || core_.input_sites(i) != nullptr;
    std::vector<output_use> made;
    std::vector<bool> is_disabled(nodes.size(), false);
    auto* at = static_cast<std::byte*>(landed_.block ? landed_.block->data() : nullptr);
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t node = nodes.size() - count + i, bytes = landed_.outputs[i].size_bytes();
        const auto* const copy = std::get_if<copy_command>(&nodes[node].what);
        if (copy == nullptr || landed_.outputs[i].is_on_host() || copy->rows.count != 1 || copy->bytes != bytes ||
            copy->destination != at)
            return {};
        output_use& use = made.emplace_back(output_use{{}, bytes, at, at});
        // The second output of one memory is a copy of the first.
        const bool is_again =
            std::any_of(made.begin(), made.end() - 1, [&](const auto& each) { return each.now == copy->source; });
        if (is_known && !is_again && !is_input(copy->source))
            use.sites = sluice::detail::sites_of_copied(list_->graph, node);
        is_disabled[node] = !use.sites.empty();
        if (is_disabled[node]) use.now = const_cast<void*>(copy->source);
        if (!is_disabled[node]) use.sites = {{node, graph_program::copy_destination, 0}};
        at += landed_outputs::aligned(bytes);
    }
    list_->is_disabled = std::move(is_disabled);
    return made;
}

// Whether the commands may write where the caller wants the outputs: while they run, nothing else is read there.
bool prepared_call::may_lead(std::span<const input_view> inputs, std::span<const output_view> to) const {
    if (to.empty() || outputs_.empty()) return false;
    const auto overlap = [](const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
        const auto x = reinterpret_cast<std::uintptr_t>(a), y = reinterpret_cast<std::uintptr_t>(b);
        return x < y + b_bytes && y < x + a_bytes;
    };
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
        const std::size_t bytes = outputs_[i].bytes;
        if (!is_aligned(to[i].data())) return false;
        for (std::size_t k = 0; k < inputs.size(); ++k)
            if (overlap(to[i].data(), bytes, inputs[k].data(), for_.forms[k].size_bytes())) return false;
        for (std::size_t k = 0; k < i; ++k)
            if (overlap(to[i].data(), bytes, to[k].data(), outputs_[k].bytes)) return false;
    }
    return true;
}

// Has the commands of the list read an input where it is, instead of a copy of it. False if they read the copy.
bool prepared_call::lead_input(std::size_t input, const void* to) {
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

void prepared_call::lead_output(output_use& use, void* to) {
    void* const now = to != nullptr ? to : use.landed;
    if (use.now == now) return;
    for (const sluice::detail::address_site& each : use.sites)
        sluice::detail::set_address_in(list_->graph, each.node, each.at, static_cast<std::byte*>(now) + each.offset);
    use.now = now;
}

namespace {

double median_seconds(prepared_call& of, std::size_t runs) {
    std::vector<double> all;
    for (std::size_t i = 0; i < runs; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        of.run();
        all.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    of.clear_outputs();
    std::ranges::sort(all);
    return all[runs / 2];
}

// The rows that all inputs and outputs have as their first lengths, and their bytes; 0 rows where these differ.
struct copied_rows {
    std::size_t rows = 0, bytes = 0;
};
copied_rows rows_copied_by(const prepared_call& call) {
    copied_rows made;
    bool is_one = true;
    const auto add = [&](std::span<const std::size_t> shape, std::size_t bytes) {
        if (made.bytes == 0 && !shape.empty()) made.rows = shape[0];
        is_one = is_one && !shape.empty() && shape[0] == made.rows;
        made.bytes += bytes;
    };
    for (const view_form& each : call.inputs()) add(each.shape(), each.size_bytes());
    for (const any_tensor& each : call.outputs().outputs) add(each.shape(), each.size_bytes());
    return is_one ? made : copied_rows{};
}

}  // namespace

// What refuses a piece refuses no batch: the whole one is kept then.
std::unique_ptr<prepared_call> in_pieces_if_faster(const prepared_network& of, std::unique_ptr<prepared_call> whole) {
    constexpr std::size_t least_bytes = 1 << 20, most_pieces = 8, runs = 5;
    constexpr double bytes_in_second = 50e9, least_share = 0.1;
    const auto [rows, bytes] = rows_copied_by(*whole);
    const auto is_own = [](const step& each) { return each.what->own != nullptr; };
    for (std::size_t i = 0; i < whole->inputs().size(); ++i)
        if (whole->is_fixed(i)) return whole;
    if (of.on().shares_host_memory() || rows < 2 || bytes < least_bytes || !whole->outputs().checks.empty() ||
        has_step(of.body(), is_own))
        return whole;
    try {
        if (static_cast<double>(bytes) / bytes_in_second < least_share * median_seconds(*whole, 1) ||
            !of.rows().is_along_first_axes())
            return whole;
        double best = median_seconds(*whole, runs);
        for (std::size_t count = 2; count <= std::min(rows, most_pieces); count *= 2) {
            std::vector<std::size_t> pieces(count, rows / count);
            for (std::size_t i = 0; i < rows % count; ++i) ++pieces[i];
            auto next = std::make_unique<prepared_call>(of, prepared_inputs(whole->inputs()), std::move(pieces));
            next->try_out();
            const double seconds = median_seconds(*next, runs);
            if (seconds >= best) break;
            best = seconds;
            whole = std::move(next);
        }
    } catch (const error&) {
        of.on().throw_if_refusing();
    }
    return whole;
}

std::unique_ptr<prepared_call> try_to_prepare(const prepared_network& of, prepared_inputs inputs, std::string& why_not,
                                              std::size_t most_bytes) {
    why_not = why_not_prepared(of, inputs);
    if (!why_not.empty()) return nullptr;
    try {
        auto call = std::make_unique<prepared_call>(of, std::move(inputs));
        if (call->bytes() > most_bytes) {
            why_not = "its values take " + std::to_string(call->bytes()) + " bytes";
            return nullptr;
        }
        call->try_out();
        return call;
    } catch (const error& failure) {
        if (failure.code() != errc::graph_refused) throw;
        why_not = failure.what();
        return nullptr;
    }
}

}  // namespace sluice::nn::detail

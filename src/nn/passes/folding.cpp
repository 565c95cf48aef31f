// SPDX-License-Identifier: Apache-2.0
#include "nn/passes/folding.hpp"

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "nn/graph_run.hpp"
#include "nn/operators/own.hpp"
#include "nn/operators/run_memory.hpp"
#include "nn/passes/steps.hpp"
#include "sluice/base/error.hpp"
#include "sluice/nn/run_limit.hpp"

namespace sluice::nn::detail {
namespace {

// Bytes may become numbers of eight.
constexpr std::size_t always_folded_bytes = std::size_t{64} << 20, folded_bytes_of_one = 8;
// A larger constant is not copied into the graphs inside.
constexpr std::size_t copied_inside_bytes = std::size_t{1} << 20;

// How often steps, their inner graphs and the graph's caller read each value.
std::vector<std::size_t> uses_of_slots(const prepared_graph& in) {
    std::vector<std::size_t> uses(in.slots);
    for (const step& each : in.steps) {
        for (const slot one : each.inputs)
            if (one != no_slot) ++uses[one];
        for (const auto& [from, inner] : each.inner)
            for (const auto& one : inner->captures) ++uses[one.outside];
    }
    for (const slot one : in.outputs) ++uses[one];
    return uses;
}

// Of the graph, of its nodes' attributes and of the graphs inside.
std::size_t bytes_of_constants(const graph& in) {
    std::size_t bytes = 0;
    for (const auto& [name, value] : in.constants) bytes += value.bytes->size();
    for (const node& each : in.nodes) {
        for (const auto& [name, value] : each.attributes) {
            if (const auto* const held = std::get_if<constant>(&value)) bytes += held->bytes->size();
            if (const auto* const inner = std::get_if<std::shared_ptr<const graph>>(&value))
                bytes += bytes_of_constants(**inner);
        }
    }
    return bytes;
}

}  // namespace

constant_folder::constant_folder(const model& of)
    : model_(of), most_bytes_(always_folded_bytes + folded_bytes_of_one * bytes_of_constants(of.body)) {}

// Carries out the steps whose inputs are all constants. Constants that nothing reads any more are dropped.
void constant_folder::fold(prepared_graph& body, bool is_inner, what which) {
    std::vector<std::size_t> uses = uses_of_slots(body);
    std::vector<step> left;
    for (step& each : body.steps) {
        bool is_folded = false;
        try {
            is_folded = fold_step(body, each, which);
        } catch (const error&) {
            // A graph inside may never run, and then it does not matter that one of its nodes cannot.
            if (!is_inner) throw;
        }
        if (!is_folded) {
            left.push_back(std::move(each));
            continue;
        }
        for (const slot one : each.inputs)
            if (one != no_slot && --uses[one] == 0) drop_constant(body, one);
        for (const slot one : each.outputs)
            if (one != no_slot && uses[one] == 0) drop_constant(body, one);
    }
    body.steps = std::move(left);
    for (step& each : body.steps)
        for (const auto& [from, inner] : each.inner) fold_inside(body, *inner, which);
}

// Constants of the graph around are brought in, as others may be computed from them. Large ones that are still read
// afterwards stay where they are shared.
void constant_folder::fold_inside(const prepared_graph& around, prepared_graph& inner, what which) {
    std::vector<prepared_graph::capture> shared;
    std::erase_if(inner.captures, [&](const prepared_graph::capture& one) {
        const auto found = around.constants.find(one.outside);
        if (found == around.constants.end()) return false;
        inner.constants.insert_or_assign(one.inside, found->second);
        if (found->second.size_bytes() > copied_inside_bytes) shared.push_back(one);
        return true;
    });
    fold(inner, true, which);
    for (const auto& each : shared)
        if (inner.constants.erase(each.inside) != 0) inner.captures.push_back(each);
}

void constant_folder::drop_constant(prepared_graph& body, slot which) {
    const auto found = body.constants.find(which);
    if (found == body.constants.end()) return;
    if (body.computed.erase(which) != 0) bytes_ -= found->second.size_bytes();
    body.constants.erase(found);
}

// Carries out a step whose inputs are all constants, unless that takes too much memory. Says whether it did.
bool constant_folder::fold_step(prepared_graph& body, const step& each, what which) {
    if (which == what::all_but_dequantized && is(each, "DequantizeLinear")) return false;
    const auto is_constant = [&](slot one) { return one == no_slot || body.constants.contains(one); };
    if (!each.inner.empty() || each.what->is_random || !std::ranges::all_of(each.inputs, is_constant)) return false;
    operators::run_memory memory;
    const graph_run runner(model_, nullptr, nullptr);
    std::vector<any_tensor> slots(body.slots);
    for (const slot one : each.inputs)
        if (one != no_slot) slots[one] = body.constants.at(one);
    std::vector<any_tensor> shapes = slots;
    step without_elements = each;
    without_elements.is_on_host = false;
    runner.carry_out(without_elements, shapes, operators::place::nowhere);
    std::size_t needed = 0, most = most_bytes_;
    for (const slot one : each.outputs)
        if (one != no_slot) needed += shapes[one].size_bytes();
    if (memory.most() != 0) most = std::min(most, memory.most());
    if (needed > most - std::min(bytes_, most)) return false;
    try {
        runner.carry_out(each, slots, operators::place::host);
    } catch (const operators::needs_device&) {
        return false;
    } catch (const run_too_large&) {
        return false;
    }
    for (const slot one : each.outputs) {
        if (one == no_slot || !slots[one]) continue;
        bytes_ += slots[one].size_bytes();
        body.computed.insert(one);
        body.constants.insert_or_assign(one, std::move(slots[one]));
    }
    return true;
}

}  // namespace sluice::nn::detail

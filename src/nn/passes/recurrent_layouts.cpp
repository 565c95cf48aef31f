// SPDX-License-Identifier: Apache-2.0
// Recurrent layers of batches whose first dimension are the rows, as exporters write them: the layer reads and writes
// with other strides, and the nodes around it that only move elements go.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "nn/operators/dense_layers.hpp"
#include "nn/passes/dense_search.hpp"
#include "nn/passes/passes.hpp"
#include "nn/passes/steps.hpp"

namespace sluice::nn::detail {
namespace {

using operators::recurrent_views;
using integers = std::vector<std::int64_t>;

bool is_single(const step& of, std::string_view op) {
    return is(of, op) && !of.is_on_host && of.stretch == nullptr && of.layers == nullptr && !of.gives_shape_only &&
           of.inner.empty() && of.outputs.size() == 1;
}

bool may_turn(const step& of) {
    return (is(of, "RNN") || is(of, "GRU") || is(of, "LSTM")) && !of.is_on_host && of.stretch == nullptr &&
           (of.layers == nullptr || of.layers->rounded) && integer(of, "layout", 0) == 0 && !of.outputs.empty();
}

bool turns_by(const step& of, const integers& order) {
    const auto* const given = is_single(of, "Transpose") ? of.from->find<integers>("perm") : nullptr;
    return given != nullptr && *given == order;
}

class layout_search {
public:
    explicit layout_search(prepared_graph& in)
        : in_(in), readers_(only_readers(in)), givers_(givers(in)), is_left_(in.steps.size(), true) {}

    void run() {
        for (std::size_t i = 0; i < in_.steps.size(); ++i) {
            if (!may_turn(in_.steps[i])) continue;
            recurrent_views views;
            views.x_has_rows_first = take_input(i);
            take_output(i, views);
            if (!views.x_has_rows_first && views.y == recurrent_views::form::as_the_node) continue;
            const auto& before = in_.steps[i].layers;
            auto made = before != nullptr ? std::make_shared<operators::dense_layers>(*before)
                                          : std::make_shared<operators::dense_layers>();
            made->recurrent = views;
            in_.steps[i].layers = std::move(made);
        }
        erase_steps(in_, is_left_);
    }

private:
    bool take_input(std::size_t at) {
        step& layer = in_.steps[at];
        const slot x = layer.inputs[0];
        if (x == no_slot || readers_[x] != at || givers_[x] == no_step) return false;
        const step& turn = in_.steps[givers_[x]];
        if (!is_left_[givers_[x]] || !turns_by(turn, {1, 0, 2})) return false;
        note_joined(turn, layer);
        layer.inputs[0] = turn.inputs[0];
        is_left_[givers_[x]] = false;
        return true;
    }

    // The only step that reads what this one gives, or null.
    const step* next(const step& of) const {
        if (of.outputs[0] == no_slot || in_.needed_on_host[of.outputs[0]]) return nullptr;
        const std::size_t reader = readers_[of.outputs[0]];
        return reader < several_steps && is_left_[reader] ? &in_.steps[reader] : nullptr;
    }
    void take(const step& one, step& layer) {
        note_joined(one, layer);
        layer.outputs[0] = one.outputs[0];
        is_left_[static_cast<std::size_t>(&one - in_.steps.data())] = false;
    }

    void take_output(std::size_t at, recurrent_views& views) {
        step& layer = in_.steps[at];
        const bool has_two = text(layer, "direction", "forward") == "bidirectional";
        const step* const first = next(layer);
        if (first == nullptr) return;
        const step* joined = first;  // gives [steps, rows, directions * hidden]
        if (has_two) {
            if (!turns_by(*first, {0, 2, 1, 3})) return;
            joined = next(*first);
            if (joined == nullptr || !joins_last_two(*joined)) return;
        } else if (!removes_directions(*first)) {
            return;
        }
        const step* const turn = next(*joined);
        const bool turns = turn != nullptr && turns_by(*turn, {1, 0, 2});
        if (!turns && !has_two) return;  // it is a view
        views.y = turns ? recurrent_views::form::rows_steps : recurrent_views::form::steps_rows;
        take(*first, layer);
        if (joined != first) take(*joined, layer);
        if (turns) take(*turn, layer);
    }

    std::optional<integers> constant_integers(const step& of, std::size_t input) const {
        if (input >= of.inputs.size() || of.inputs[input] == no_slot) return {};
        const auto found = in_.constants.find(of.inputs[input]);
        if (found == in_.constants.end() || !found->second.is_on_host() || found->second.type() != io::dtype::i64)
            return {};
        const auto values = found->second.values<std::int64_t>();
        return integers(values.begin(), values.end());
    }
    bool removes_directions(const step& of) const {
        if (!is_single(of, "Squeeze")) return false;
        const auto* const attribute = of.from->find<integers>("axes");
        const std::optional<integers> axes = attribute != nullptr ? *attribute : constant_integers(of, 1);
        return axes && (*axes == integers{1} || *axes == integers{-3});
    }
    bool joins_last_two(const step& of) const {
        return is_single(of, "Reshape") && integer(of, "allowzero", 0) == 0 &&
               constant_integers(of, 1) == std::optional(integers{0, 0, -1});
    }

    prepared_graph& in_;
    const std::vector<std::size_t> readers_, givers_;
    std::vector<bool> is_left_;
};

}  // namespace

void turn_recurrent_layers(prepared_graph& in) {
    for (step& each : in.steps)
        for (const auto& [from, inner] : each.inner) turn_recurrent_layers(*inner);
    layout_search(in).run();
}

}  // namespace sluice::nn::detail

// SPDX-License-Identifier: Apache-2.0
// Recurrent layers and attention: a sequence is a row.

#include "nn/rows/rule.hpp"

namespace sluice::nn::rows {
namespace {

// Inputs: x, weights, recurrent weights, bias, lengths, the state at the beginning, and of LSTM the cell's state and
// its weights.
void recurrent_layer(rule_call& in) {
    const bool is_first = in.integer("layout", 0) != 0;
    const std::size_t of_x = is_first ? 0 : 1, of_state = is_first ? 0 : 1;
    for (const std::size_t i : {1, 2, 3, 7}) in.require_alike(i, "weights");
    if (in.rank(0) != 3) throw cannot_follow{"takes sequences of three dimensions"};
    const auto rows = in.axis(0);
    if (rows && *rows != of_x) throw cannot_follow{"takes each row as a step of a sequence"};
    const amount count = in.shape(0)[of_x];
    const auto require_rows = [&](std::size_t i, std::size_t axis) {
        if (!in.has_input(i)) return;
        const auto its = in.axis(i);
        if (its.has_value() != rows.has_value() || (rows && (*its != axis || !(in.shape(i)[axis] == count))))
            throw cannot_follow{"has states or lengths whose rows are not those of the sequences"};
    };
    require_rows(4, 0);
    require_rows(5, of_state);
    require_rows(6, of_state);
    const std::int64_t directions = in.text("direction", "forward") == "bidirectional" ? 2 : 1;
    std::optional<amount> hidden;
    if (in.what().attributes.contains("hidden_size")) hidden = amount(in.integer("hidden_size", 0));
    if (in.wants_output(0)) {
        const std::optional<amount> steps = in.shape(0)[is_first ? 1 : 0];
        in.give(0,
                is_first ? open_shape{count, steps, amount(directions), hidden}
                         : open_shape{steps, amount(directions), count, hidden},
                rows ? std::optional<std::size_t>(is_first ? 0 : 2) : std::nullopt);
    }
    for (std::size_t o = 1; o < in.output_count(); ++o) {
        if (!in.wants_output(o)) continue;
        in.give(
            o, is_first ? open_shape{count, amount(directions), hidden} : open_shape{amount(directions), count, hidden},
            rows ? std::optional(of_state) : std::nullopt);
    }
}

// Whether all inputs that are there have the rows at their first dimension, or none has.
std::optional<std::size_t> first_of_all(const rule_call& in, std::initializer_list<std::size_t> inputs) {
    std::optional<std::size_t> rows;
    std::optional<amount> length;
    std::size_t count = 0, with_rows = 0;
    for (const std::size_t i : inputs) {
        if (!in.has_input(i)) continue;
        ++count;
        const auto its = in.axis(i);
        if (!its) continue;
        if (*its != 0 || (length && !(*length == in.shape(i)[0])))
            throw cannot_follow{"takes sequences whose rows are not at the same places"};
        ++with_rows;
        rows = its;
        length = in.shape(i)[0];
    }
    if (with_rows != 0 && with_rows != count)
        throw cannot_follow{"takes sequences of which only some belong to the rows"};
    return rows;
}

// [rows, heads, steps, size], or [rows, steps, heads * size]. The mask is broadcast to [rows, heads, steps, steps].
void attention_rows(rule_call& in) {
    const auto rows = first_of_all(in, {0, 1, 2, 4, 5, 6});
    if (in.has_input(3)) {
        const auto of_mask = in.axis(3);
        if (of_mask && (in.rank(3) != 4 || *of_mask != 0 || !rows || !(in.shape(3)[0] == in.shape(0)[0])))
            throw cannot_follow{"has a mask whose rows are not those of the sequences"};
        if (!of_mask && rows) require_one_along(in, 3, 4, 0);
    }
    const std::size_t rank = in.rank(0);
    const std::optional<amount> count = in.shape(0).at(0);
    for (std::size_t o = 0; o < in.output_count(); ++o) {
        if (!in.wants_output(o)) continue;
        open_shape to(o == 0 ? rank : 4);
        to.at(0) = count;
        in.give(o, std::move(to), rows);
    }
}

// Its graphs could use the number of a row.
void flexible_attention_rows(rule_call& in) {
    const auto rows = first_of_all(in, {0, 1, 2});
    if (in.what().attributes.contains("score_mod") || in.what().attributes.contains("prob_mod"))
        throw cannot_follow{"has graphs of its own, into which rows are not followed"};
    open_shape to(in.rank(0));
    to.at(0) = in.shape(0).at(0);
    in.give(0, std::move(to), rows);
}

// [rows, steps, heads * size]
void linear_attention_rows(rule_call& in) {
    const auto rows = first_of_all(in, {0, 1, 2, 3, 4, 5});
    const std::optional<amount> count = in.shape(0).at(0);
    open_shape to(in.rank(0));
    to.at(0) = count;
    in.give(0, std::move(to), rows);
    if (in.wants_output(1)) in.give(1, {count, std::nullopt, std::nullopt, std::nullopt}, rows);
}

// The sines and cosines are those of each place, or, without places, of each row.
void rotary_embedding_rows(rule_call& in) {
    const auto rows = in.axis(0);
    if (in.has_input(3)) {
        in.require_alike(1, "tables");
        in.require_alike(2, "tables");
        static_cast<void>(first_of_all(in, {0, 3}));
    } else {
        static_cast<void>(first_of_all(in, {0, 1, 2}));
    }
    if (rows && *rows != 0) throw cannot_follow{"takes sequences whose first dimension is not the rows"};
    in.give(0, open(in.shape(0)), rows);
}

}  // namespace

std::span<const rule_of_operator> sequence_rules() {
    static const std::vector<rule_of_operator> all{
        {.name = "RNN", .how = &recurrent_layer},
        {.name = "GRU", .how = &recurrent_layer},
        {.name = "LSTM", .how = &recurrent_layer},
        {.name = "Attention", .how = &attention_rows},
        {.name = "FlexAttention", .how = &flexible_attention_rows, .domain = "ai.onnx.preview"},
        {.name = "LinearAttention", .how = &linear_attention_rows},
        {.name = "RotaryEmbedding", .how = &rotary_embedding_rows},
    };
    return all;
}

}  // namespace sluice::nn::rows

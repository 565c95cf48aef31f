// SPDX-License-Identifier: Apache-2.0
// rule: how an operator treats the rows of a batch. A rule sees one node (rule_call) with what is known of its inputs,
// and says for each output which axis has the rows. It throws cannot_follow where rows may depend on each other, where
// a row has no place of its own any more, and where it does not know.
//
// A rule also holds where no input has rows: it then gives shapes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nn/rows/followed.hpp"
#include "sluice/nn/model.hpp"

namespace sluice::nn::rows {

// Of an output. A length that a rule leaves out is found otherwise: it is the same for any number of rows.
using open_shape = std::vector<std::optional<amount>>;

struct given_output {
    open_shape shape;
    std::optional<std::size_t> axis;  // of the rows; none: it is the same for any rows
    bool is_row_number = false;
    std::vector<bool> row_number_columns = {};
    std::optional<amount> runs = {};  // of the rows; none: those of the inputs
};

class rule_call {
public:
    rule_call(const node& what, std::int64_t opset, std::span<const followed* const> inputs, symbol_table& symbols)
        : node_(what),
          opset_(opset),
          inputs_(inputs),
          symbols_(symbols),
          outputs_(what.outputs.size()),
          has_read_(inputs.size()) {}

    std::int64_t opset() const noexcept { return opset_; }
    const node& what() const noexcept { return node_; }
    symbol_table& symbols() const noexcept { return symbols_; }

    // --- inputs ---
    std::size_t input_count() const noexcept { return inputs_.size(); }
    bool has_input(std::size_t i) const noexcept { return i < inputs_.size() && inputs_[i] != nullptr; }
    const followed& input(std::size_t i) const;
    // The axis of its rows; none where it is alike. Throws cannot_follow where it is computed from the number of rows.
    std::optional<std::size_t> axis(std::size_t i) const;
    const amounts& shape(std::size_t i) const;  // throws cannot_follow where it is not known
    std::size_t rank(std::size_t i) const { return shape(i).size(); }
    bool has_rows(std::size_t i) const { return has_input(i) && input(i).has_rows(); }
    // Throws cannot_follow unless the input is left out or alike. `what`: of whom one, for messages.
    void require_alike(std::size_t i, std::string_view what) const;
    // The elements as amounts; throws cannot_follow where they are not known.
    amounts numbers(std::size_t i) const;
    std::vector<std::int64_t> integers(std::size_t i) const;  // the same, without symbols
    // Throws cannot_follow where an input is computed from the number of rows, and the rule has not read its elements:
    // then the rule cannot know what they do.
    void require_numbers_were_read() const;

    // --- attributes ---
    std::int64_t integer(std::string_view attribute, std::int64_t otherwise) const;
    std::string text(std::string_view attribute, std::string_view otherwise) const;
    std::optional<std::vector<std::int64_t>> list(std::string_view attribute) const;
    // Counted from the end if negative. One past the last is possible if `may_be_end`.
    std::size_t axis_of(std::int64_t value, std::size_t rank, bool may_be_end = false) const;

    // --- outputs ---
    std::size_t output_count() const noexcept { return outputs_.size(); }
    bool wants_output(std::size_t o) const noexcept { return o < outputs_.size() && !node_.outputs[o].empty(); }
    given_output& give(std::size_t o, open_shape shape, std::optional<std::size_t> axis);
    std::span<const std::optional<given_output>> outputs() const noexcept { return outputs_; }

private:
    const node& node_;
    const std::int64_t opset_;
    const std::span<const followed* const> inputs_;
    symbol_table& symbols_;
    std::vector<std::optional<given_output>> outputs_;
    mutable std::vector<bool> has_read_;  // elements of these inputs
};

using rule = void (*)(rule_call&);

// A line of the table.
struct rule_of_operator {
    std::string_view name;
    rule how;                        // null: rows mix
    std::string_view why = {};       // they do
    bool takes_row_numbers = false;  // values that are the numbers of rows
    bool takes_runs = false;         // rows that lie along the axis in several runs, in all inputs that have rows
    std::string_view domain = {};
};

// Each family's lines.
std::span<const rule_of_operator> element_rules();
std::span<const rule_of_operator> image_rules();
std::span<const rule_of_operator> indexing_rules();
std::span<const rule_of_operator> learning_rules();
std::span<const rule_of_operator> mixing_operators();
std::span<const rule_of_operator> movement_rules();
std::span<const rule_of_operator> product_rules();
std::span<const rule_of_operator> reduction_rules();
std::span<const rule_of_operator> sequence_rules();
std::span<const rule_of_operator> shape_rules();

// What the pass asks. Another one is for tests: they show that a wrong rule is noticed.
class rule_table {
public:
    virtual ~rule_table() = default;
    // Null where there is none.
    virtual const rule_of_operator* find(std::string_view domain, std::string_view name) const = 0;
};
const rule_table& all_rules();
std::vector<const rule_of_operator*> list_of_rules();

// --- for several rules ---

// How `shapes` are broadcast: the output's lengths, and the axis of the rows. Throws cannot_follow where the rows of
// two inputs are not at the same axis, or where another input has several elements along it.
struct broadcast_result {
    open_shape shape;
    std::optional<std::size_t> axis;
};
broadcast_result broadcast(const rule_call& in, std::span<const std::size_t> inputs);
// Throws cannot_follow where the input covers axis `axis` of a tensor of `rank` dimensions, to which it is broadcast,
// with more than one element.
void require_one_along(const rule_call& in, std::size_t i, std::size_t rank, std::size_t axis);
// Throws cannot_follow where `axis` is the one of the rows.
void require_other_axis(std::optional<std::size_t> rows, std::size_t axis, std::string_view does);
open_shape open(const amounts& shape);
// Where the rows of elements are that are given another shape of as many elements.
struct reshaped_rows {
    std::size_t axis;
    amount runs;
};
reshaped_rows rows_after_reshape(const amounts& from, std::size_t axis, const amount& runs, const amounts& to);

}  // namespace sluice::nn::rows

// SPDX-License-Identifier: Apache-2.0
#include "nn/rows/rule.hpp"

#include <algorithm>
#include <functional>
#include <map>

#include "nn/rows/shape_numbers.hpp"

namespace sluice::nn::rows {

const followed& rule_call::input(std::size_t i) const {
    if (!has_input(i)) throw cannot_follow{"leaves out its input " + std::to_string(i)};
    return *inputs_[i];
}

std::optional<std::size_t> rule_call::axis(std::size_t i) const {
    const followed& its = input(i);
    if (its.what == company::counts) throw cannot_follow{"computes with the number of rows"};
    return its.has_rows() ? std::optional(its.axis) : std::nullopt;
}

const amounts& rule_call::shape(std::size_t i) const {
    const followed& its = input(i);
    if (!its.shape) throw cannot_follow{"has an input of which the number of dimensions is not known"};
    return *its.shape;
}

void rule_call::require_alike(std::size_t i, std::string_view what) const {
    if (!has_input(i) || input(i).is_alike()) return;
    throw cannot_follow{"takes " + std::string(what) + " that depend on the rows"};
}

amounts rule_call::numbers(std::size_t i) const {
    const followed& its = input(i);
    if (its.has_rows()) throw cannot_follow{"gives a shape that depends on the numbers of a row"};
    if (const auto known = elements_of(its)) {
        has_read_[i] = true;
        return *known;
    }
    throw cannot_follow{"needs its input " + std::to_string(i) + ", which is not known before the network runs"};
}

void rule_call::require_numbers_were_read() const {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
        if (has_input(i) && input(i).what == company::counts && !has_read_[i])
            throw cannot_follow{"takes a number that is computed from the number of rows"};
    }
}

std::vector<std::int64_t> rule_call::integers(std::size_t i) const {
    std::vector<std::int64_t> made;
    for (const amount& each : numbers(i)) {
        const auto number = each.number();
        if (!number)
            throw cannot_follow{"needs its input " + std::to_string(i) +
                                ", which is not known before the network runs"};
        made.push_back(*number);
    }
    return made;
}

std::int64_t rule_call::integer(std::string_view attribute, std::int64_t otherwise) const {
    const auto* const found = node_.find<std::int64_t>(attribute);
    return found != nullptr ? *found : otherwise;
}

std::string rule_call::text(std::string_view attribute, std::string_view otherwise) const {
    const auto* const found = node_.find<std::string>(attribute);
    return found != nullptr ? *found : std::string(otherwise);
}

std::optional<std::vector<std::int64_t>> rule_call::list(std::string_view attribute) const {
    const auto* const found = node_.find<std::vector<std::int64_t>>(attribute);
    return found != nullptr ? std::optional(*found) : std::nullopt;
}

std::size_t rule_call::axis_of(std::int64_t value, std::size_t rank, bool may_be_end) const {
    const auto count = static_cast<std::int64_t>(rank);
    const std::int64_t from_begin = value < 0 ? value + count : value;
    if (from_begin < 0 || from_begin > count || (from_begin == count && !may_be_end))
        throw cannot_follow{"has an axis that its input does not have"};
    return static_cast<std::size_t>(from_begin);
}

given_output& rule_call::give(std::size_t o, open_shape shape, std::optional<std::size_t> axis) {
    if (o >= outputs_.size()) throw cannot_follow{"has too few outputs"};
    return outputs_[o].emplace(given_output{std::move(shape), axis});
}

// --- the table ------------------------------------------------------------------------------------------------

namespace {

class built_in_rules final : public rule_table {
public:
    built_in_rules() {
        for (const auto family : {&element_rules, &image_rules, &indexing_rules, &learning_rules, &mixing_operators,
                                  &movement_rules, &product_rules, &reduction_rules, &sequence_rules, &shape_rules}) {
            for (const rule_of_operator& each : family()) lines_.emplace(std::pair(each.domain, each.name), &each);
        }
    }
    const rule_of_operator* find(std::string_view domain, std::string_view name) const override {
        const auto found = lines_.find({domain, name});
        return found != lines_.end() ? found->second : nullptr;
    }
    const std::map<std::pair<std::string_view, std::string_view>, const rule_of_operator*>& lines() const noexcept {
        return lines_;
    }

private:
    std::map<std::pair<std::string_view, std::string_view>, const rule_of_operator*> lines_;
};

const built_in_rules& built_in() {
    static const built_in_rules made;
    return made;
}

}  // namespace

const rule_table& all_rules() { return built_in(); }

std::vector<const rule_of_operator*> list_of_rules() {
    std::vector<const rule_of_operator*> made;
    for (const auto& [name, each] : built_in().lines()) made.push_back(each);
    return made;
}

// --- for several rules ----------------------------------------------------------------------------------------

open_shape open(const amounts& shape) { return {shape.begin(), shape.end()}; }

void require_other_axis(std::optional<std::size_t> rows, std::size_t axis, std::string_view does) {
    if (rows == axis) throw cannot_follow{std::string(does) + " along the axis of the rows"};
}

void require_one_along(const rule_call& in, std::size_t i, std::size_t rank, std::size_t axis) {
    if (!in.has_input(i)) return;
    const amounts& its = in.shape(i);
    if (its.size() + axis < rank) return;
    if (!its[its.size() + axis - rank].is(1))
        throw cannot_follow{"combines the rows with a tensor that has several elements along their axis"};
}

broadcast_result broadcast(const rule_call& in, std::span<const std::size_t> inputs) {
    std::size_t rank = 0;
    for (const std::size_t i : inputs) rank = std::max(rank, in.rank(i));
    broadcast_result made{open_shape(rank, amount(1)), {}};
    std::optional<amount> rows;
    for (const std::size_t i : inputs) {
        const auto axis = in.axis(i);
        if (!axis) continue;
        const std::size_t moved = *axis + rank - in.rank(i);
        if ((made.axis && *made.axis != moved) || (rows && !(*rows == in.shape(i)[*axis])))
            throw cannot_follow{"combines each row with each other row"};
        made.axis = moved;
        rows = in.shape(i)[*axis];
    }
    for (const std::size_t i : inputs) {
        if (made.axis && !in.has_rows(i)) require_one_along(in, i, rank, *made.axis);
        const amounts& its = in.shape(i);
        for (std::size_t d = 0; d < its.size(); ++d) {
            auto& to = made.shape[rank - its.size() + d];
            if (its[d].is(1) || (to && *to == its[d])) continue;
            const bool is_one = to && to->is(1);
            const bool is_number = its[d].number().has_value();
            // One of two lengths of which nothing is known is 1, or they are equal.
            if (is_one || is_number) {
                to = its[d];
            } else if (!to || !to->number()) {
                to.reset();
            }
        }
    }
    if (made.axis) made.shape[*made.axis] = rows;
    return made;
}

reshaped_rows rows_after_reshape(const amounts& from, std::size_t axis, const amount& runs, const amounts& to) {
    std::optional<std::size_t> found;
    for (std::size_t d = 0; d < to.size(); ++d) {
        if (!to[d].depends_on_rows()) continue;
        if (found) throw cannot_follow{"gives a shape with the number of rows in two dimensions"};
        found = d;
    }
    if (!found) throw cannot_follow{"gives a shape without a dimension for the rows"};
    // Before the rows are that many runs of all of them. Those that no dimension counts are in that of the rows, and
    // then it has a whole number of elements for each row and run.
    const std::span all(from), made(to);
    const amount left = product(all.first(axis)) * runs / product(made.first(*found));
    if (!to[*found].is_multiple_of_rows() || !left.is_whole() || left.depends_on_rows() ||
        !(to[*found].without_rows() / left).is_whole()) {
        throw cannot_follow{"gives a shape in which a row is not a part of its own"};
    }
    return {*found, left};
}

}  // namespace sluice::nn::rows

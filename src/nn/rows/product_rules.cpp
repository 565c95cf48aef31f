// SPDX-License-Identifier: Apache-2.0
// Products of matrices: the rows may be at an axis that stays, and not at one along which products are added up.
#include <algorithm>
#include <map>

#include "nn/rows/rule.hpp"

namespace sluice::nn::rows {
namespace {

// A matrix product of inputs `a` and `b`, as NumPy has it.
void give_matrix_product(rule_call& in, std::size_t a, std::size_t b) {
    const amounts &left = in.shape(a), &right = in.shape(b);
    const auto of_left = in.axis(a), of_right = in.axis(b);
    if (left.empty() || right.empty()) throw cannot_follow{"has inputs that do not fit"};
    if (of_left == left.size() - 1 || of_right == (right.size() < 2 ? 0 : right.size() - 2))
        throw cannot_follow{"adds up over the rows"};
    const std::size_t left_batch = std::max<std::size_t>(left.size(), 2) - 2,
                      right_batch = std::max<std::size_t>(right.size(), 2) - 2,
                      batch = std::max(left_batch, right_batch);
    open_shape to(batch, amount(1));
    const auto add = [&](const amounts& of, std::size_t count) {
        for (std::size_t d = 0; d < count; ++d) {
            auto& each = to[batch - count + d];
            if (of[d].is(1) || (each && *each == of[d])) continue;
            if ((each && each->is(1)) || of[d].number()) {
                each = of[d];
            } else if (!each || !each->number()) {
                each.reset();
            }
        }
    };
    add(left, left_batch);
    add(right, right_batch);
    // Where the axis of an input is in the output, and what the other input has there.
    std::optional<std::size_t> rows;
    amount length(1);
    const auto place = [&](const amounts& of, std::size_t axis, std::size_t count, const amounts& other,
                           std::optional<std::size_t> of_other, std::size_t other_count) {
        const std::size_t at = axis + batch - count;
        if (at + other_count >= batch) {
            const std::size_t its = at + other_count - batch;
            const bool is_same = of_other == its && other[its] == of[axis];
            if (!is_same && (of_other || !other[its].is(1)))
                throw cannot_follow{"combines the rows with a tensor that has several elements along their axis"};
        } else if (of_other) {
            throw cannot_follow{"combines each row with each other row"};
        }
        rows = at;
        length = of[axis];
        to[at] = length;
    };
    const bool has_left_rows = left.size() > 1, has_right_columns = right.size() > 1;
    if (of_left && *of_left < left_batch) {
        place(left, *of_left, left_batch, right, of_right, right_batch);
    } else if (of_right && *of_right < right_batch) {
        place(right, *of_right, right_batch, left, of_left, left_batch);
    } else if (of_left && of_right) {
        throw cannot_follow{"combines each row with each other row"};
    } else if (of_left) {
        rows = batch;
    } else if (of_right) {
        rows = batch + (has_left_rows ? 1 : 0);
    }
    if (has_left_rows) to.emplace_back(left[left.size() - 2]);
    if (has_right_columns) to.emplace_back(right.back());
    in.give(0, std::move(to), rows);
}

void matmul(rule_call& in) { give_matrix_product(in, 0, 1); }

void matmul_integer(rule_call& in) {
    in.require_alike(2, "zero points");
    in.require_alike(3, "zero points");
    for (std::size_t i = 2; i < 4; ++i)
        if (in.has_input(i) && in.has_rows(i - 2) && !product(in.shape(i)).is(1))
            throw cannot_follow{"has a zero point for each row of a matrix"};
    give_matrix_product(in, 0, 1);
}

void quantized_matmul(rule_call& in) {
    for (const std::size_t i : {1, 2, 4, 5, 6, 7}) {
        in.require_alike(i, "scales or zero points");
        const bool is_of_second = i == 4 || i == 5;  // of its columns
        if (in.rank(i) > 1 || (!is_of_second && in.rank(i) == 1 && !in.shape(i)[0].is(1)))
            throw cannot_follow{"has scales for each row of a matrix"};
    }
    if (in.has_rows(3)) throw cannot_follow{"has rows in its second factor"};
    give_matrix_product(in, 0, 3);
}

void gemm(rule_call& in) {
    const bool turns_left = in.integer("transA", 0) != 0, turns_right = in.integer("transB", 0) != 0;
    if (in.rank(0) != 2 || in.rank(1) != 2) throw cannot_follow{"has inputs that do not fit"};
    const std::size_t left_row = turns_left ? 1 : 0, right_column = turns_right ? 0 : 1;
    const auto of_left = in.axis(0), of_right = in.axis(1);
    if (of_left == 1 - left_row || of_right == 1 - right_column) throw cannot_follow{"adds up over the rows"};
    if (of_left && of_right) throw cannot_follow{"combines each row with each other row"};
    open_shape to{in.shape(0)[left_row], in.shape(1)[right_column]};
    std::optional<std::size_t> rows;
    if (of_left) rows = 0;
    if (of_right) rows = 1;
    if (in.has_input(2)) {
        const auto of_added = in.axis(2);
        if (!of_added && rows) require_one_along(in, 2, 2, *rows);
        if (of_added) {
            const std::size_t at = *of_added + 2 - in.rank(2);
            if (rows != at || !(in.shape(2)[*of_added] == *to[at])) throw cannot_follow{"adds other rows to rows"};
        }
    }
    in.give(0, std::move(to), rows);
}

// --- Einsum ---------------------------------------------------------------------------------------------------

// The letters of each input and of the output; capital letters beyond 'Z' stand for what "..." stands for.
struct einsum_terms {
    std::vector<std::u32string> inputs;
    std::u32string output;
};

constexpr char32_t of_dots = 1000;  // the last dimension of "..." is this, the one before it one more, ...

einsum_terms terms_of(const rule_call& in) {
    einsum_terms made;
    std::string text;
    for (const char each : in.text("equation", "")) {
        if (each != ' ') text += each;
    }
    const std::size_t arrow = text.find("->");
    std::string left = text.substr(0, arrow);
    std::size_t most_dots = 0;
    std::map<char32_t, int> uses;
    std::vector<std::string> parts(1);
    for (const char each : left) {
        if (each == ',') {
            parts.emplace_back();
        } else {
            parts.back() += each;
        }
    }
    if (parts.size() != in.input_count()) throw cannot_follow{"has an equation that does not fit"};
    const auto spelled = [&](const std::string& part, std::size_t dots) {
        std::u32string term;
        for (std::size_t c = 0; c < part.size(); ++c) {
            if (part[c] != '.') {
                term += static_cast<char32_t>(part[c]);
                continue;
            }
            for (std::size_t d = dots; d-- > 0;) term += static_cast<char32_t>(of_dots + d);
            c += 2;
        }
        return term;
    };
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const auto letters = static_cast<std::size_t>(std::ranges::count_if(parts[i], [](char c) { return c != '.'; }));
        if (letters > in.rank(i)) throw cannot_follow{"has an equation that does not fit"};
        const std::size_t dots = parts[i].find('.') != std::string::npos ? in.rank(i) - letters : 0;
        most_dots = std::max(most_dots, dots);
        made.inputs.push_back(spelled(parts[i], dots));
        if (made.inputs.back().size() != in.rank(i)) throw cannot_follow{"has an equation that does not fit"};
        for (const char32_t each : made.inputs.back()) ++uses[each];
    }
    if (arrow != std::string::npos) {
        made.output = spelled(text.substr(arrow + 2), most_dots);
    } else {
        for (std::size_t d = most_dots; d-- > 0;) made.output += static_cast<char32_t>(of_dots + d);
        for (const auto& [letter, count] : uses)
            if (letter < of_dots && count == 1) made.output += letter;
    }
    return made;
}

void einsum(rule_call& in) {
    const einsum_terms terms = terms_of(in);
    std::optional<char32_t> rows;
    std::optional<amount> length;
    for (std::size_t i = 0; i < terms.inputs.size(); ++i) {
        const auto axis = in.axis(i);
        if (!axis) continue;
        const char32_t letter = terms.inputs[i][*axis];
        if ((rows && *rows != letter) || (length && !(*length == in.shape(i)[*axis])))
            throw cannot_follow{"combines each row with each other row"};
        if (std::ranges::count(terms.inputs[i], letter) != 1) throw cannot_follow{"takes a diagonal of the rows"};
        rows = letter;
        length = in.shape(i)[*axis];
    }
    open_shape to;
    std::optional<std::size_t> axis;
    for (const char32_t letter : terms.output) {
        std::optional<amount> its;
        for (std::size_t i = 0; i < terms.inputs.size(); ++i) {
            const std::size_t at = terms.inputs[i].find(letter);
            if (at == std::u32string::npos) continue;
            if (rows == letter && !in.axis(i) && !in.shape(i)[at].is(1))
                throw cannot_follow{"combines the rows with a tensor that has several elements along their axis"};
            if (!its || its->is(1)) its = in.shape(i)[at];
        }
        if (rows == letter) {
            axis = to.size();
            its = length;
        }
        to.push_back(its);
    }
    if (rows && !axis) throw cannot_follow{"adds up over the rows"};
    in.give(0, std::move(to), axis);
}

// Of square matrices, the last two dimensions.
void determinant_of(rule_call& in) {
    const amounts& from = in.shape(0);
    const auto rows = in.axis(0);
    if (from.size() < 2 || (rows && *rows + 2 >= from.size()))
        throw cannot_follow{"combines each row with each other row"};
    in.give(0, open_shape(from.begin(), from.end() - 2), rows);
}

}  // namespace

std::span<const rule_of_operator> product_rules() {
    static const std::vector<rule_of_operator> all{
        {.name = "MatMul", .how = &matmul, .takes_runs = true},
        {.name = "Gemm", .how = &gemm, .takes_runs = true},
        {.name = "Einsum", .how = &einsum},
        {.name = "MatMulInteger", .how = &matmul_integer},
        {.name = "QLinearMatMul", .how = &quantized_matmul},
        {.name = "Det", .how = &determinant_of},
    };
    return all;
}

}  // namespace sluice::nn::rows

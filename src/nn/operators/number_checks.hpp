// SPDX-License-Identifier: Apache-2.0
// Checks of numbers that say where or which: indices, positions, lengths, labels, categories.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "nn/operators/node_call.hpp"

namespace sluice::nn::operators {

struct number_range {
    std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                 most = std::numeric_limits<std::int64_t>::max();  // both are possible

    friend bool operator==(const number_range&, const number_range&) = default;
};
inline constexpr number_range any_number_at_all{};  // NaN and infinity too

// What the numbers of an input may be.
struct number_rule {
    static constexpr std::size_t max_columns = 8;

    number_rule() = default;
    // All numbers are in this range.
    explicit number_rule(number_range every_number, const char* noun_of_one = "index")
        : noun(noun_of_one), allowed{every_number} {}

    const char* noun = "index";  // of one number, in messages; never freed
    // Number i is of column i % columns, and has to be in that column's range.
    std::size_t columns = 1;
    number_range allowed[max_columns];
    std::optional<std::int64_t> also;  // one that is possible too
    // If not null: each number is one of these, whatever the ranges are. A table_of (machine_learning.hpp) of i64.
    const any_tensor* known = nullptr;
};

// Each number of this input, of any type, has to be one that the rule allows. Call it when y, which depends on the
// numbers, is made and not written yet. The error is that of node_call::refuse_value: errc::out_of_range, with the
// file, the node, the input and the number.
//
//     numbers in host memory    refused now
//     CPU devices               a command that writes y fails, and so does what depends on y
//     GPUs                      network::run fails; forward cannot, and y's kernel decides what an element with such a
//                               number becomes
void require_numbers(const node_call& in, std::size_t input, const number_rule& rule, const any_tensor& y);
inline void require_numbers(const node_call& in, std::size_t input, number_range allowed, const any_tensor& y) {
    require_numbers(in, input, number_rule(allowed), y);
}

}  // namespace sluice::nn::operators

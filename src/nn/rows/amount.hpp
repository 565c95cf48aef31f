// SPDX-License-Identifier: Apache-2.0
// amount: a number of which a part is known when the network runs: a fraction times powers of symbols. Lengths are such
// numbers, and what is computed from them: N, 64, 12 * N * length, N * 4 * 64 / 128.
//
// A symbol is what is the same for any number of rows, e.g. the length of the sequences; only row_count is the number
// of rows itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice::nn::rows {

// Why rows are not followed any further: the rest of a sentence whose subject is a node.
struct cannot_follow {
    std::string why;
};

using symbol = std::uint32_t;
inline constexpr symbol row_count = 0;

class amount {
public:
    amount(std::int64_t number = 0) : over_(number) {}  // NOLINT(google-explicit-constructor): it is a number
    static amount of(symbol which);

    std::optional<std::int64_t> number() const;  // where there are no symbols and nothing is left of a division
    bool is(std::int64_t what) const { return number() == what; }
    // The number for this many rows; none where another symbol is there, or a fraction.
    std::optional<std::int64_t> at(std::int64_t rows) const;
    bool depends_on_rows() const;
    // Whether it is the number of rows times what does not depend on it.
    bool is_multiple_of_rows() const;
    amount without_rows() const;                             // divided by the number of rows
    bool is_whole() const;                                   // nothing is divided
    bool is_negative() const noexcept { return over_ < 0; }  // where symbols are not negative
    std::int64_t factor() const noexcept { return over_; }
    std::int64_t divisor() const noexcept { return under_; }
    const std::vector<std::pair<symbol, int>>& powers() const noexcept { return powers_; }

    // Throw cannot_follow for numbers that are too large, and for a division by 0.
    friend amount operator*(const amount& a, const amount& b);
    friend amount operator/(const amount& a, const amount& b);
    friend bool operator==(const amount&, const amount&) = default;
    // None where the symbols differ.
    static std::optional<amount> sum(const amount& a, const amount& b);
    amount negated() const;

private:
    amount(std::int64_t over, std::int64_t under, std::vector<std::pair<symbol, int>> powers);

    std::int64_t over_ = 0, under_ = 1;
    std::vector<std::pair<symbol, int>> powers_;  // ascending; no power is 0
};

using amounts = std::vector<amount>;

amount product(std::span<const amount> all);
std::string to_string(const amount& of);  // for keys of symbols and for tests: "12*s0^1"

// Those of one network. The same key gives the same symbol.
class symbol_table {
public:
    symbol_table() { keys_.push_back({"rows", true}); }
    amount named(const std::string& key, bool is_length);
    std::size_t size() const noexcept { return keys_.size(); }
    // Whether no symbol of it may be negative.
    bool has_sign(const amount& of) const;

private:
    struct entry {
        std::string key;
        bool is_length;
    };
    std::vector<entry> keys_;
    std::map<std::string, symbol> symbols_;
};

}  // namespace sluice::nn::rows

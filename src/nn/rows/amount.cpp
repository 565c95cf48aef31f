// SPDX-License-Identifier: Apache-2.0
#include "nn/rows/amount.hpp"

#include <algorithm>
#include <numeric>

namespace sluice::nn::rows {
namespace {

std::int64_t times(std::int64_t a, std::int64_t b) {
    std::int64_t made = 0;
    if (__builtin_mul_overflow(a, b, &made)) throw cannot_follow{"computes with lengths that are too large"};
    return made;
}

}  // namespace

amount::amount(std::int64_t over, std::int64_t under, std::vector<std::pair<symbol, int>> powers)
    : over_(over), under_(under), powers_(std::move(powers)) {
    std::erase_if(powers_, [](const auto& each) { return each.second == 0; });
    const std::int64_t common = std::gcd(over_, under_);
    if (common > 1) {
        over_ /= common;
        under_ /= common;
    }
    if (over_ == 0) {
        under_ = 1;
        powers_.clear();
    }
    if (under_ < 0) {
        over_ = -over_;
        under_ = -under_;
    }
}

amount amount::of(symbol which) { return {1, 1, {{which, 1}}}; }

std::optional<std::int64_t> amount::number() const {
    if (!powers_.empty() || under_ != 1) return {};
    return over_;
}

std::optional<std::int64_t> amount::at(std::int64_t rows) const {
    std::int64_t made = over_;
    for (const auto& [which, power] : powers_) {
        if (which != row_count || power < 0) return {};
        for (int i = 0; i < power; ++i) made = times(made, rows);
    }
    if (made % under_ != 0) return {};
    return made / under_;
}

bool amount::depends_on_rows() const { return !powers_.empty() && powers_.front().first == row_count; }
bool amount::is_multiple_of_rows() const { return depends_on_rows() && powers_.front().second == 1; }
amount amount::without_rows() const { return *this / of(row_count); }
bool amount::is_whole() const {
    return under_ == 1 && std::ranges::all_of(powers_, [](const auto& each) { return each.second > 0; });
}

amount operator*(const amount& a, const amount& b) {
    std::map<symbol, int> powers(a.powers_.begin(), a.powers_.end());
    for (const auto& [which, power] : b.powers_) powers[which] += power;
    // Divided first: products of lengths and their parts stay small.
    const std::int64_t left = std::gcd(a.over_, b.under_), right = std::gcd(b.over_, a.under_);
    return {times(a.over_ / std::max<std::int64_t>(left, 1), b.over_ / std::max<std::int64_t>(right, 1)),
            times(a.under_ / std::max<std::int64_t>(right, 1), b.under_ / std::max<std::int64_t>(left, 1)),
            {powers.begin(), powers.end()}};
}

amount operator/(const amount& a, const amount& b) {
    if (b.over_ == 0) throw cannot_follow{"divides by a length of 0"};
    amount inverse(b.under_, b.over_, b.powers_);
    for (auto& [which, power] : inverse.powers_) power = -power;
    return a * inverse;
}

std::optional<amount> amount::sum(const amount& a, const amount& b) {
    if (a.is(0)) return b;
    if (b.is(0)) return a;
    if (a.powers_ != b.powers_) return {};
    std::int64_t over = 0;
    if (__builtin_add_overflow(times(a.over_, b.under_), times(b.over_, a.under_), &over)) return {};
    return amount(over, times(a.under_, b.under_), a.powers_);
}

amount amount::negated() const { return *this * amount(-1); }

amount product(std::span<const amount> all) {
    amount made(1);
    for (const amount& each : all) made = made * each;
    return made;
}

std::string to_string(const amount& of) {
    std::string text = std::to_string(of.factor());
    if (of.divisor() != 1) text += "/" + std::to_string(of.divisor());
    for (const auto& [which, power] : of.powers()) text += "*s" + std::to_string(which) + "^" + std::to_string(power);
    return text;
}

amount symbol_table::named(const std::string& key, bool is_length) {
    const auto [at, is_new] = symbols_.try_emplace(key, static_cast<symbol>(keys_.size()));
    if (is_new) keys_.push_back({key, is_length});
    return amount::of(at->second);
}

bool symbol_table::has_sign(const amount& of) const {
    return std::ranges::all_of(of.powers(), [&](const auto& each) { return keys_[each.first].is_length; });
}

}  // namespace sluice::nn::rows

// SPDX-License-Identifier: Apache-2.0
#include "serve/size_classes.hpp"

#include <algorithm>

namespace sluice::serve {
namespace {

constexpr double most_more = 1.1;  // of the time

}  // namespace

std::vector<std::size_t> sizes_to_time(std::size_t most) {
    std::vector<std::size_t> sizes;
    for (std::size_t rows = 1; rows < most; rows *= 2) sizes.push_back(rows);
    if (most != 0) sizes.push_back(most);
    return sizes;
}

size_classes::size_classes(std::span<const timed_size> timed) {
    for (std::size_t i = 1; i < timed.size(); ++i) {
        const timed_size &before = timed[i - 1], &its = timed[i];
        const bool has_sizes_between = its.rows > before.rows + 1;
        if (has_sizes_between &&
            static_cast<double>(its.time.count()) <= most_more * static_cast<double>(before.time.count()))
            ranges_.push_back({before.rows, its.rows});
    }
}

std::size_t size_classes::rows_for(std::size_t rows) const noexcept {
    const auto its = std::ranges::lower_bound(ranges_, rows, {}, &range::up_to);
    return its != ranges_.end() && rows > its->above ? its->up_to : rows;
}

std::vector<std::size_t> size_classes::padded() const {
    std::vector<std::size_t> sizes;
    sizes.reserve(ranges_.size());
    for (const range& each : ranges_) sizes.push_back(each.up_to);
    return sizes;
}

}  // namespace sluice::serve

// SPDX-License-Identifier: Apache-2.0
#include "nn/nearest_name.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <limits>
#include <numeric>

namespace sluice::nn::detail {
namespace {

char lower(char letter) { return static_cast<char>(std::tolower(static_cast<unsigned char>(letter))); }

// Levenshtein's, row by row.
std::size_t distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i + 1;
        for (std::size_t j = 0; j < b.size(); ++j) {
            const std::size_t replaced = diagonal + (lower(a[i]) == lower(b[j]) ? 0 : 1);
            diagonal = row[j + 1];
            row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
        }
    }
    return row.back();
}

}  // namespace

std::string nearest_name(std::string_view to, const std::vector<std::string>& among) {
    to = to.substr(0, 200);  // no name is as long
    std::string nearest;
    std::size_t least = std::numeric_limits<std::size_t>::max();
    for (const std::string& each : among) {
        const std::size_t found = distance(to, each);
        if (found >= least) continue;
        least = found;
        nearest = each;
    }
    return nearest;
}

}  // namespace sluice::nn::detail

// SPDX-License-Identifier: Apache-2.0
#include "serve/access_token.hpp"

#include <algorithm>

namespace sluice::serve {

bool has_token(std::string_view authorization, std::span<const std::string> tokens) noexcept {
    constexpr std::string_view scheme = "bearer ";
    if (authorization.size() <= scheme.size()) return false;
    const auto is_same = [](char its, char wanted) { return its == wanted || (wanted != ' ' && its == wanted - 32); };
    if (!std::ranges::equal(authorization.substr(0, scheme.size()), scheme, is_same)) return false;
    authorization.remove_prefix(scheme.size());
    bool is_one = false;
    for (const std::string& each : tokens) {
        if (each.empty()) continue;
        unsigned difference = each.size() == authorization.size() ? 0 : 1;
        for (std::size_t i = 0; i < authorization.size(); ++i)
            difference |= static_cast<unsigned char>(authorization[i] ^ each[i % each.size()]);
        is_one = is_one || difference == 0;
    }
    return is_one;
}

}  // namespace sluice::serve

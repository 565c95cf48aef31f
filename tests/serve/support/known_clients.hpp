// SPDX-License-Identifier: Apache-2.0
// Clients of a server of the tests.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sluice/serve/access_list.hpp"

namespace sluice::serve::testing {

inline constexpr std::size_t whole_bytes = std::size_t{1} << 30;

inline std::shared_ptr<access_list> list_of(const std::vector<known_client>& clients, std::size_t bytes = whole_bytes) {
    return std::make_shared<access_list>(clients, std::make_shared<request_budget>(bytes));
}

// One client, who may do everything with each of these.
inline std::shared_ptr<access_list> client_with(std::vector<std::string> tokens) {
    return list_of({{.name = "one", .tokens = std::move(tokens)}});
}

}  // namespace sluice::serve::testing

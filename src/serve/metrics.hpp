// SPDX-License-Identifier: Apache-2.0
// The text that Prometheus reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "sluice/serve/server.hpp"

namespace sluice::serve {

// Of a front end.
struct http_metrics {
    std::map<int, std::uint64_t> replies;  // by status
    std::size_t connections = 0;
    std::size_t body_bytes = 0;
    std::uint64_t wrong_traceparents = 0;
    std::uint64_t failed_handshakes = 0;
    std::uint64_t traced = 0;    // requests whose spans are written
    std::uint64_t untraced = 0;  // that were dropped
};

// Of models, those that were asked for have series: the `most_models` that were asked last; the others are counted.
// Costs O(models), and the text.
std::string metrics_of(const server& models, const http_metrics& http, std::size_t most_models = 200);

}  // namespace sluice::serve

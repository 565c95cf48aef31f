// SPDX-License-Identifier: Apache-2.0
// model_config: how one model is served. Each member has a key of the same name in the model's config.json.
//
//     {"max_batch": 32, "queue": 1000, "timeout_us": 50000}
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sluice/kernels/activation.hpp"

namespace sluice::serve {

struct model_config {
    // Requests that wait are computed together, as long as they have at most this many rows. Default: 64 for a model of
    // which a trial at load time shows that its rows do not depend on each other, else 1.
    std::optional<std::size_t> max_batch = std::nullopt;
    // How long a request waits for others while the batch is not full.
    std::size_t max_delay_us = 0;
    // Requests that wait; more are refused.
    std::size_t queue = 256;
    // Batches that are computed at the same time, each on a thread of its own.
    std::size_t instances = 1;
    // Batches that are expected to take at most this long run on the thread that took the request. 0: none.
    std::size_t caller_thread_us = 200;
    // A request that has waited this long is not computed. 0: no limit. A request may name a shorter time.
    std::size_t timeout_us = 0;
    // The versions that are served. None: the latest; in the file "latest", "all", or a list such as [1, 3].
    std::optional<std::vector<std::size_t>> versions = std::nullopt;
    bool all_versions = false;
    // The device by its name; empty: the server's.
    std::string device = {};
    // Of a model in a safetensors file, where the file does not say them.
    std::optional<activation> hidden_activation = std::nullopt;
    std::optional<activation> output_activation = std::nullopt;
};

// Throws file_error that names the file and the key: for text that is no JSON object, a key that is unknown (with those
// that there are) or is there twice, and a value of another type or range.
model_config read_model_config(const std::filesystem::path& file);
model_config parse_model_config(const std::string& text, const std::filesystem::path& file);

}  // namespace sluice::serve

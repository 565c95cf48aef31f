// SPDX-License-Identifier: Apache-2.0
// model_config: how one model is served. Each member has a key of the same name in the model's config.json or
// config.yaml, but for those that only Triton's config.pbtxt has.
//
//     {"max_batch": 32, "queue": 1000, "timeout_us": 50000}
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sluice/io/dtype.hpp"
#include "sluice/kernels/activation.hpp"
#include "sluice/nn/precision.hpp"

namespace sluice::serve {

// What happens to a request that has waited too long.
enum class timeout_action {
    reject,  // the request is not computed
    delay,   // it is computed after all others of its priority
};

// What holds for the requests of one priority that wait. The members are keys of the same names.
struct queue_policy {
    serve::timeout_action timeout_action = serve::timeout_action::reject;  // what happens then
    // The time after which a request that still waits is treated so. 0: no limit.
    std::size_t timeout_us = 0;
    // Whether a request may name a shorter time, or one where the policy has none.
    bool allow_timeout_override = true;
    // Requests that wait; more are refused. 0: as many as the model's queue takes.
    std::size_t queue = 0;
};

// What a configuration says of an input or output.
struct configured_tensor {
    std::string name;                // in the network
    io::dtype type;                  // of its elements
    std::vector<std::int64_t> dims;  // -1: any length
    bool is_text = false;            // the elements are texts; `type` says nothing then
};

// The inputs or the outputs that a configuration names.
struct configured_tensors {
    std::vector<configured_tensor> all;  // in its order
    bool has_rows = false;               // the network has a dimension more before `dims`, of any length
};

struct model_config {
    // Requests that wait are computed together, as long as they have at most this many rows. Default: 64 for a model of
    // which its graph shows that its rows do not depend on each other (nn::find_row_independence), else 1. A number
    // above 1 is a promise that they do not: the server then joins also where that is not proven.
    std::optional<std::size_t> max_batch = std::nullopt;
    // Batches of these many rows are computed without a wait; ascending, none above max_batch. A batch has the largest
    // of these numbers that the queue's first requests have together, and never more than the last of them.
    std::vector<std::size_t> preferred_batch_size = {};
    // How long a request waits for others while the batch is not full, and has no preferred number of rows.
    std::size_t max_delay_us = 0;
    // Requests that wait, of all priorities; more are refused.
    std::size_t queue = 256;
    // Batches that are computed at the same time, each on a thread of its own.
    std::size_t instances = 1;
    // Batches that are expected to take at most this long run on the thread that took the request. 0: none.
    std::size_t caller_thread_us = 200;
    // A request that has waited this long is not computed, whatever its policy says. 0: no limit. A request may name a
    // shorter time.
    std::size_t timeout_us = 0;
    // Requests have priorities from 1, which is computed first, to this number. 0: all are equal.
    std::size_t priority_levels = 0;
    // Of requests that name no priority. From 1 to priority_levels; 0 without levels.
    std::size_t default_priority = 0;
    queue_policy default_queue_policy = {};  // of the priorities that priority_queue_policy does not have
    // Of single priorities, in the place of the default; by the priority. In the file: {"1": {"queue": 10}}.
    std::map<std::size_t, queue_policy> priority_queue_policy = {};
    // Of a network with memory, for sequences: outputs that are inputs of the next step, {"hn": "h0"}. None: those that
    // the names say (nn::find_state).
    std::map<std::string, std::string> state = {};
    // Shapes of the state's inputs in the first step, for lengths that neither the model nor the other inputs of that
    // step say: {"past": [1, 4, 0, 16]} is an empty past.
    std::map<std::string, std::vector<std::size_t>> state_shapes = {};
    // Sequences that are live at a time; one more is refused. 0: the model has no sequences.
    std::size_t max_sequences = 1000;
    std::size_t sequence_idle_ms = 60'000;  // a sequence without a step for this long ends
    // The versions that are served. None: the latest; in the file "latest", "all", or a list such as [1, 3].
    std::optional<std::vector<std::size_t>> versions = std::nullopt;
    bool all_versions = false;  // instead of `versions`
    // Of requests that name no version, the parts that versions get: {1: 90, 2: 10}, in the file {"1": 90, "2": 10}.
    // These versions are served, unless `versions` says more. Empty: the latest version gets all.
    std::map<std::size_t, std::size_t> shares = {};
    // The device by its name; empty: the server's.
    std::string device = {};
    // In the place of `device`: several devices, by their names. The model is on each of them, and a batch goes to the
    // one with the fewest batches. There are at least as many instances as devices.
    std::vector<std::string> devices = {};
    // In which numbers the model multiplies: "f32", "bf16", "f16" or "int8" in the file.
    nn::precision precision = nn::precision::f32;
    // What the network keeps on a device between runs of different shapes, beyond those that came last
    // (nn::kept_limit). A shape whose memory was not kept is prepared again. Default: what the engine says.
    std::optional<std::size_t> kept_bytes = std::nullopt;
    // A perceptron stays on its GPU (sluice/nn/resident.hpp) and answers requests of a few rows without a launch, where
    // a trial at load time shows that this is faster than the network. It takes `instances` lanes of multiprocessors,
    // and while it stays, libraries that other models need on this GPU cannot be loaded: load_all() loads it last.
    bool resident = false;
    // Of a model in a safetensors file, where the file does not say them.
    std::optional<activation> hidden_activation = std::nullopt;
    std::optional<activation> output_activation = std::nullopt;  // of the last layer

    // Of config.pbtxt only.
    std::string name = {};        // that the model must have; empty: any
    std::string model_file = {};  // in the folder of a version, in the place of model.onnx; empty: that
    configured_tensors inputs = {}, outputs = {};  // that the network must have
};

// The file's ending says whether it is JSON, YAML or Triton's: .json, .yaml, .pbtxt. Throws file_error that names the
// file and the key or the line: for text that is no object, a key that is unknown (with those that there are) or is
// there twice, a value of another type or range, and values that do not fit each other. Of YAML 1.2 the core schema is
// accepted, without anchors and aliases. Costs a read of the file, of at most 1 MiB, and its parse.
model_config read_model_config(const std::filesystem::path& file);
// The same from text. `file` is for messages, and its ending says the format.
model_config parse_model_config(const std::string& text, const std::filesystem::path& file);

// Whether Sluice was built with yaml-cpp. Without it YAML is refused (errc::unsupported). Costs O(1).
bool yaml_supported() noexcept;
// Why it was not: "yaml-cpp (libyaml-cpp-dev) was not found", "SLUICE_YAML=OFF"; empty when it was. Costs a copy of the
// text.
std::string why_no_yaml();

}  // namespace sluice::serve

// SPDX-License-Identifier: Apache-2.0
// A batch and its answer as messages through a hatch: a head with the tensors' types and shapes, and then their bytes,
// which are copied once into the shared memory and once out of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "serve/workers/hatch_stream.hpp"
#include "sluice/nn/any_tensor.hpp"

namespace sluice::serve {

struct batch_request {
    std::uint64_t model = 0;  // the number that its load had
    std::vector<nn::any_tensor> inputs;
};

// Outputs, or what the run has thrown, in the words of failure_message.hpp.
using batch_answer = std::variant<std::vector<nn::any_tensor>, std::string>;

// Of tensors in host memory; an empty one is an input that is left out. Throw as hatch_writer::write.
void write_request(hatch& to, const hatch_wait& wait, std::uint64_t model, std::span<const nn::any_tensor> inputs);
void write_answer(hatch& to, const hatch_wait& wait, std::span<const nn::any_tensor> outputs);
void write_failure(hatch& to, const hatch_wait& wait, std::string_view failure);

// The message whose first piece is `first`. Throw worker_damage for one that is none, or whose tensors have more than
// `most_bytes` together; std::bad_alloc; and what the look throws.
batch_request read_request(hatch& from, hatch_piece first, const hatch_wait& wait,
                           std::size_t most_bytes = std::numeric_limits<std::size_t>::max());
batch_answer read_answer(hatch& from, hatch_piece first, const hatch_wait& wait,
                         std::size_t most_bytes = std::numeric_limits<std::size_t>::max());

}  // namespace sluice::serve

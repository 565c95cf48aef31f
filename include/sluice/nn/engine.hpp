// SPDX-License-Identifier: Apache-2.0
// engine: runs a network over many rows, in batches that overlap on streams and devices; results come out in order.
//
// The calling thread submits batches and takes results; at most `in_flight` batches are in flight, which bounds the
// memory used, whatever the number of rows.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "sluice/nn/plan.hpp"
#include "sluice/op/any_operation.hpp"
#include "sluice/runtime/scheduling_policy.hpp"

namespace sluice::nn {

// The rows [first, first + count) as an operation that puts them on a device, [count, in features].
using row_source = std::function<any_operation<tensor<float>>(std::size_t first, std::size_t count)>;
// Takes the outputs of rows [first, first + outputs.size() / out features), row-major; the span is valid
// during the call. Called on the thread that called run, in order of rows.
using row_sink = std::function<void(std::size_t first, std::span<const float> outputs)>;

// How rows become batches.
struct engine_options {
    std::size_t batch = 1024;   // rows a batch, at least 1; the last one may be smaller
    std::size_t in_flight = 8;  // batches in flight at most, at least 1
};

class engine {
public:
    // Throws errc::invalid_argument for zeroes in the options.
    explicit engine(const engine_options& options = {});

    // Adds a device: the network's plan there and the policy that picks its streams. A batch goes to the one with the
    // fewest batches in flight, in rotation among equals. The policy must outlive the engine. On a GPU, whole batches
    // that are small run as a compiled graph, which is compiled here. Throws what compile throws.
    void add(plan network, scheduling_policy& policy);

    // Runs batches of zeros of each size that `rows` rows are split into: as many as may be in flight, and no more than
    // there are, so that what happens only once (libraries loaded, algorithms chosen, memory taken) happens now.
    // Blocks. Throws errc::invalid_argument when no device was added, and the first failure of a batch.
    void warm_up(std::size_t rows) const;

    // Runs all rows. Blocks. Throws the first failure, once no batch in flight uses the source's memory any more. At
    // least one device must have been added.
    void run(std::size_t rows, const row_source& source, const row_sink& sink) const;

private:
    // Submits a batch: its rows, through the network, to the host.
    using batch_function = std::function<any_operation<pending<std::vector<float>>>(tensor<float>)>;
    struct lane {
        plan network;
        scheduling_policy* policy;
        device* on;
        batch_function any_batch;
        batch_function whole_batch;
    };
    const batch_function& function_for(const lane& in, std::size_t rows) const noexcept {
        return rows == options_.batch ? in.whole_batch : in.any_batch;
    }

    engine_options options_;
    std::vector<lane> lanes_;
};

}  // namespace sluice::nn

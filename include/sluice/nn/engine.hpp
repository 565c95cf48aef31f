// SPDX-License-Identifier: Apache-2.0
// engine: runs a network over many rows, in batches that overlap on streams and devices; results come out in order.
//
//     nn::engine rows({.batch = 128});
//     rows.add(sync(nn::make_network(nn::load_onnx("digits.onnx")), pool), pool);
//     rows.run(pixels, logits);      // [n, 64] -> [n, 10]
//
// The network has one input, f32 [rows, in features], and one output, f32 [rows, out features]. Its rows must be
// independent of each other, for batches divide them: find_row_independence says whether that is proven.
//
// The calling thread submits batches and takes results; at most `in_flight` batches are in flight, which bounds the
// memory used, whatever the number of rows.
//
// On a CPU device, small batches share commands: one command computes several batches, one after the other, straight
// from the rows that the caller has. Each batch is computed as it would be alone, so the bits of its outputs do not
// depend on this.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "sluice/nn/any_tensor.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/op/any_operation.hpp"
#include "sluice/runtime/pending.hpp"
#include "sluice/runtime/scheduling_policy.hpp"

namespace sluice::nn {

namespace detail {
class batch_calls;
class batch_time;
}  // namespace detail

// Rows in host memory, row-major: a view, or a vector that it owns.
class host_rows {
public:
    // A view. `owner` is kept until the rows are not needed any more. Without one they must stay as they are until the
    // sink has their outputs, or run has ended. Costs O(1): no number is copied. A vector is moved, and costs one
    // allocation.
    host_rows(std::span<const float> values, std::shared_ptr<const void> owner = {})  // NOLINT(google-explicit-*)
        : values_(values), owner_(std::move(owner)) {}
    host_rows(std::vector<float> values) {  // NOLINT(google-explicit-*)
        auto owned = std::make_shared<const std::vector<float>>(std::move(values));
        values_ = *owned;
        owner_ = std::move(owned);
    }

    std::span<const float> values() const noexcept { return values_; }            // all rows
    const std::shared_ptr<const void>& owner() const noexcept { return owner_; }  // null for a view without one

private:
    std::span<const float> values_;
    std::shared_ptr<const void> owner_;
};
// The rows [first, first + count), which are whole batches but for the last rows of all. Called on the thread that
// called run, in order of rows, once for each row.
using host_row_source = std::function<host_rows(std::size_t first, std::size_t count)>;

// Takes the outputs of rows [first, first + outputs.size() / out features), row-major; the span is valid
// during the call. Called on the thread that called run, in order of rows, once for all rows that the source was asked
// for at once.
using row_sink = std::function<void(std::size_t first, std::span<const float> outputs)>;

// How rows become batches.
struct engine_options {
    std::size_t batch = 1024;   // rows a batch, at least 1; the last one may be smaller
    std::size_t in_flight = 8;  // batches in flight at most, at least 1
};

class engine {
public:
    // Throws errc::invalid_argument for zeroes in the options. Costs O(1).
    explicit engine(const engine_options& options = {});

    // Adds a device: the network there and the policy that picks its streams. A batch goes to the one with the
    // fewest batches in flight, in rotation among equals. The policy must outlive the engine. On a GPU, whole batches
    // that are small run as a compiled graph, which is compiled here. Throws errc::shape_mismatch for a network with
    // other inputs or outputs (see the top of this file), or other numbers of features than the devices before; and
    // what compile throws. Costs what network::infer costs, and on a GPU what compile costs, with up to eight replicas.
    void add(network what, scheduling_policy& policy);

    // Makes ready what the batches that `rows` rows are split into need: on a CPU device small ones are prepared; of
    // others batches of zeros run, as many as may be in flight, and no more than there are. So what happens only once
    // (libraries loaded, algorithms chosen, memory taken) happens now. Blocks. Throws errc::invalid_argument when no
    // device was added, and the first failure of a batch. Costs at most `in_flight` batches of each of at most two
    // sizes.
    void warm_up(std::size_t rows) const;

    // Runs all rows. Blocks. Source and sink are called for one batch, or on a CPU device for several small ones that
    // share a command (half a millisecond of work); at most `in_flight` commands are in flight. Throws
    // errc::shape_mismatch when the source gives another number of values, and the first failure, once no batch in
    // flight uses the source's memory any more. At least one device must have been added. Costs at most
    // O(rows / batch) submissions, and memory for `in_flight` batches, whatever the number of rows.
    void run(std::size_t rows, const host_row_source& source, const row_sink& sink) const;

    // All rows of `inputs`, [rows, in features], into `outputs`, [rows, out features], in batches as above. On a CPU
    // device outputs are written there by the kernel, without a copy. Blocks; both must stay until it returns. What
    // `outputs` holds after a failure is unspecified. Throws errc::shape_mismatch when the sizes do not fit the network
    // or each other, errc::invalid_argument when the two overlap, and the first failure. Costs what the form with
    // sources costs; on a GPU also a copy of the outputs.
    void run(std::span<const float> inputs, std::span<float> outputs) const;

private:
    struct in_flight_command;
    // Submits a batch: its rows, through the network, to the host.
    using answer = pending<std::vector<any_tensor>>;
    using batch_function = std::function<any_operation<answer>(tensor<float>)>;
    struct lane {
        scheduling_policy* policy;
        device* on;
        batch_function any_batch;
        batch_function whole_batch;
        std::shared_ptr<detail::batch_calls> calls;
        std::shared_ptr<detail::batch_time> time;  // of a batch; of batches that may share a command
    };
    const batch_function& function_for(const lane& in, std::size_t rows) const noexcept {
        return rows == options_.batch ? in.whole_batch : in.any_batch;
    }
    void require_lanes() const;
    // A batch of `count` rows, through the operations of a lane.
    in_flight_command submit(const lane& to, std::size_t first, std::size_t count,
                             any_operation<tensor<float>> rows) const;
    // Rows of host memory; `room` is where their outputs go, or null.
    void run(std::size_t rows, const host_row_source& source, const row_sink& sink, float* room) const;
    // The window: calls submit(lane, first), which returns a command, and take(command) when it has ended, in order.
    template <typename Submit, typename Take>
    void run_window(std::size_t rows, const Submit& submit, const Take& take) const;

    engine_options options_;
    std::size_t in_ = 0, out_ = 0;  // features of a row; 0: no lane yet
    std::vector<lane> lanes_;
};

}  // namespace sluice::nn

// SPDX-License-Identifier: Apache-2.0
// landed_outputs: what a run of a network leaves in host memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

#include "nn/operators/node_call.hpp"
#include "sluice/nn/any_tensor.hpp"
#include "sluice/nn/host_view.hpp"
#include "sluice/runtime/storage.hpp"

namespace sluice::nn::detail {

class prepared_network;

// Outputs whose elements begin at multiples of 64 bytes in one block of host memory, without those that are in host
// memory already. Then what the checks found.
struct landed_outputs {
    // From the beginning of an output to that of the next one.
    static constexpr std::size_t aligned(std::size_t bytes) {
        constexpr std::size_t alignment = 64;
        return (bytes + alignment - 1) / alignment * alignment;
    }

    std::filesystem::path path;  // of the model
    std::vector<any_tensor> outputs;
    std::vector<operators::device_check> checks;
    storage_ref block;

    // The same in the block of another run.
    landed_outputs with_memory(const storage_ref& other) const { return {path, outputs, checks, other}; }

    // Of the block. Costs O(outputs).
    std::size_t block_bytes() const noexcept;
    // Where the elements of an output are. Costs O(outputs).
    const std::byte* elements_of(std::size_t output) const noexcept;

    // Copies of the outputs. Throws file_error (errc::out_of_range) for what a check has found.
    std::vector<any_tensor> operator()() const;

    // Throws errc::shape_mismatch unless there is a view for each output, of its type and shape.
    void require_fitting(std::span<const value_info> names, std::span<const output_view> to) const;
    // Copies the outputs to these views, which fit. Throws what operator() throws, before it writes.
    void copy_to(std::span<const output_view> to) const;

    void require_passed_checks() const;
};

// Submits the copies of outputs of a run, and of what its checks find, to the host. They may be read after the wait.
landed_outputs submit_landing(const prepared_network& of, execution_context& context, std::vector<any_tensor> outputs,
                              std::vector<operators::device_check> checks);

// The same of a run that it submits, with all outputs.
landed_outputs submit_run(const prepared_network& of, execution_context& context, std::vector<any_tensor> inputs);

// The same of runs with some rows each, one after the other, for a network whose rows are independent and along the
// first axes. Throws errc::graph_refused where outputs are on the host, or numbers are checked.
landed_outputs submit_runs(const prepared_network& of, execution_context& context,
                           std::vector<std::vector<any_tensor>> pieces);

any_tensor host_copy(const input_view& from);  // in host memory of its own

}  // namespace sluice::nn::detail

// SPDX-License-Identifier: Apache-2.0
#include "sluice/nn/network.hpp"

#include <cstring>
#include <filesystem>
#include <limits>
#include <utility>

#include "nn/prepared_network.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice::nn {
namespace {

constexpr std::size_t output_alignment = 64;

std::size_t aligned(std::size_t bytes) { return (bytes + output_alignment - 1) / output_alignment * output_alignment; }

// Outputs whose elements begin at multiples of output_alignment in one block of host memory, without those that are in
// host memory already. Then what the checks found.
struct landed {
    std::filesystem::path path;  // of the model
    std::vector<any_tensor> outputs;
    std::vector<operators::device_check> checks;
    storage_ref block;

    // The same in the block of another run.
    landed with_memory(const storage_ref& other) const { return {path, outputs, checks, other}; }

    std::vector<any_tensor> operator()() const {
        std::vector<any_tensor> made;
        std::size_t at = 0;
        for (const any_tensor& each : outputs) {
            if (each.is_on_host()) {
                made.push_back(each);
                continue;
            }
            std::byte* to = nullptr;
            made.push_back(any_tensor::make_on_host(each.type(), each.shape(), to));
            if (each.size_bytes() != 0)
                std::memcpy(to, static_cast<const std::byte*>(block->data()) + at, each.size_bytes());
            at += aligned(each.size_bytes());
        }
        for (const operators::device_check& each : checks) {
            std::uint64_t found = 0;
            std::memcpy(&found, static_cast<const std::byte*>(block->data()) + at, sizeof(found));
            at += output_alignment;
            if (found == ~std::uint64_t{0}) continue;
            throw file_error(path, file_error::no_offset, each.node, operators::text_of_wrong_number(each, found),
                             errc::out_of_range);
        }
        return made;
    }
};

}  // namespace

const std::vector<value_info>& network::inputs() const noexcept { return made_->from().body.inputs; }
const std::vector<value_info>& network::outputs() const noexcept { return made_->from().body.outputs; }
const rounding_report& network::rounding() const noexcept { return made_->rounding(); }
bool network::is_host_input(std::size_t input) const noexcept { return made_->is_host_input(input); }

forward_values network::forward(std::vector<any_tensor> inputs) const { return {*this, std::move(inputs)}; }
run_network network::run(std::vector<any_tensor> inputs) const { return {*this, std::move(inputs)}; }

std::vector<any_tensor> network::infer(std::vector<any_tensor> inputs) const {
    return made_->run(nullptr, operators::place::nowhere, std::move(inputs));
}

std::vector<any_tensor> forward_values::submit(execution_context& context) && {
    return network_.prepared().run(&context, operators::place::device, std::move(inputs_));
}
work_estimate forward_values::estimate() const { return {network_.prepared().commands()}; }

pending<std::vector<any_tensor>> run_network::submit(execution_context& context) && {
    std::vector<operators::device_check> checks;
    std::vector<any_tensor> outputs =
        network_.prepared().run(&context, operators::place::device, std::move(inputs_), &checks);
    std::size_t bytes = checks.size() * output_alignment;
    for (const any_tensor& each : outputs)
        if (!each.is_on_host()) bytes += aligned(each.size_bytes());
    const command_info info{"download"};
    const stream on = context.stream();
    const storage_ref block = bytes != 0 ? on.allocate_host(bytes, info) : storage_ref();
    std::size_t at = 0;
    for (any_tensor& each : outputs) {
        if (each.is_on_host()) {
            each = each.with_memory({});
            continue;
        }
        if (each.size_bytes() != 0)
            sluice::detail::copy_to_host(on, info, *block, at, *each.memory(), each.size_bytes());
        at += aligned(each.size_bytes());
        each = any_tensor::of_shape(each.type(), each.shape());  // the device's memory is not needed any more
    }
    for (operators::device_check& each : checks) {
        sluice::detail::copy_to_host(on, info, *block, at, *each.found.memory(), each.found.size_bytes());
        at += output_alignment;
        each.found = {};
    }
    return output::from(landed{network_.prepared().from().path, std::move(outputs), std::move(checks), block},
                        block.get());
}
work_estimate run_network::estimate() const { return {network_.prepared().commands()}; }

std::vector<known_operator> known_operators() {
    std::vector<known_operator> known;
    for (const operators::definition* const each : operators::all_operators()) {
        known.push_back({each->domain, each->name, each->since, {}});
        if (each->until != std::numeric_limits<std::int64_t>::max()) known.back().until = each->until;
    }
    return known;
}

void check_operators(const model& from) { detail::check_operators(from); }

network make_network_operation::submit(execution_context& context) && {
    return network(std::make_shared<const detail::prepared_network>(std::move(model_), options_, context));
}

}  // namespace sluice::nn

// SPDX-License-Identifier: Apache-2.0
#include "nn/landed_outputs.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "nn/prepared_network.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/nn/run_limit.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice::nn::detail {
namespace {

// What a check has found: the place of a number, and its bits.
using check_result = std::array<std::uint64_t, 2>;
constexpr std::size_t check_bytes = landed_outputs::aligned(sizeof(check_result));

std::size_t bytes_in_block(std::span<const any_tensor> outputs) noexcept {
    std::size_t bytes = 0;
    for (const any_tensor& each : outputs)
        if (!each.is_on_host()) bytes += landed_outputs::aligned(each.size_bytes());
    return bytes;
}

}  // namespace

std::size_t landed_outputs::block_bytes() const noexcept {
    return bytes_in_block(outputs) + checks.size() * check_bytes;
}

const std::byte* landed_outputs::elements_of(std::size_t output) const noexcept {
    if (outputs[output].is_on_host()) return outputs[output].bytes().data();
    return block ? static_cast<const std::byte*>(block->data()) + bytes_in_block(std::span(outputs).first(output))
                 : nullptr;
}

void landed_outputs::require_passed_checks() const {
    if (checks.empty()) return;
    std::size_t at = bytes_in_block(outputs);
    for (const operators::device_check& each : checks) {
        check_result found{};
        std::memcpy(found.data(), static_cast<const std::byte*>(block->data()) + at, sizeof(found));
        at += check_bytes;
        if (found[0] == ~std::uint64_t{0}) continue;
        throw file_error(path, file_error::no_offset, each.node, each.why(found[0], found[1]), errc::out_of_range);
    }
}

std::vector<any_tensor> landed_outputs::operator()() const {
    require_passed_checks();
    std::vector<any_tensor> made;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        if (outputs[i].is_on_host()) {
            made.push_back(outputs[i]);
            continue;
        }
        std::byte* to = nullptr;
        made.push_back(any_tensor::make_on_host(outputs[i].type(), outputs[i].shape(), to));
        if (outputs[i].size_bytes() != 0) std::memcpy(to, elements_of(i), outputs[i].size_bytes());
    }
    return made;
}

void landed_outputs::require_fitting(std::span<const value_info> names, std::span<const output_view> to) const {
    const auto refuse = [&](const std::string& why) { throw error(errc::shape_mismatch, path.string() + ": " + why); };
    if (to.size() != outputs.size()) {
        refuse("the network gives " + std::to_string(outputs.size()) + " outputs, and is given room for " +
               std::to_string(to.size()));
    }
    for (std::size_t i = 0; i < to.size(); ++i) {
        const view_form& room = to[i].form();
        if (room.type() == outputs[i].type() && std::ranges::equal(room.shape(), outputs[i].shape())) {
            if (to[i].data() == nullptr && room.size_bytes() != 0)
                throw error(errc::invalid_argument,
                            path.string() + ": the view for output " + in_quotes(names[i].name) + " has no memory");
            continue;
        }
        refuse("output " + in_quotes(names[i].name) + " is " + to_string(outputs[i]) + ", and is given room for " +
               room.text());
    }
}

void landed_outputs::copy_to(std::span<const output_view> to) const {
    require_passed_checks();
    for (std::size_t i = 0; i < outputs.size(); ++i)
        if (outputs[i].size_bytes() != 0) std::memcpy(to[i].data(), elements_of(i), outputs[i].size_bytes());
}

landed_outputs submit_run(const prepared_network& of, execution_context& context, std::vector<any_tensor> inputs) {
    std::vector<operators::device_check> checks;
    std::vector<any_tensor> outputs = of.run(&context, operators::place::device, std::move(inputs), &checks);
    return submit_landing(of, context, std::move(outputs), std::move(checks));
}

landed_outputs submit_landing(const prepared_network& of, execution_context& context, std::vector<any_tensor> outputs,
                              std::vector<operators::device_check> checks) {
    landed_outputs made{of.from().path, std::move(outputs), std::move(checks), {}};
    const std::size_t bytes = made.block_bytes();
    if (const std::size_t most = run_limit::now(); most != 0 && bytes > most) {
        throw run_too_large(
            of.from().path, file_error::no_offset, {},
            "its outputs have " + std::to_string(bytes) + " bytes; those of a run may have " + std::to_string(most),
            errc::out_of_memory);
    }
    const command_info info{"download"};
    const stream on = context.stream();
    if (bytes != 0) made.block = on.allocate_host(bytes, info);
    std::size_t at = 0;
    for (any_tensor& each : made.outputs) {
        if (each.is_on_host()) {
            each = each.with_memory({});
            continue;
        }
        if (each.size_bytes() != 0)
            sluice::detail::copy_to_host(on, info, *made.block, at, *each.memory(), each.size_bytes());
        at += landed_outputs::aligned(each.size_bytes());
        each = any_tensor::of_shape(each.type(), each.shape());  // the device's memory is not needed any more
    }
    for (operators::device_check& each : made.checks) {
        sluice::detail::copy_to_host(on, info, *made.block, at, *each.found.memory(), each.found.size_bytes());
        at += check_bytes;
        each.found = {};
    }
    return made;
}

landed_outputs submit_runs(const prepared_network& of, execution_context& context,
                           std::vector<std::vector<any_tensor>> pieces) {
    landed_outputs made{of.from().path, {}, {}, {}};
    std::vector<std::vector<any_tensor>> outputs;
    for (std::vector<any_tensor>& each : pieces) {
        outputs.push_back(of.run(&context, operators::place::device, std::move(each), &made.checks));
        const bool is_here = std::ranges::any_of(outputs.back(), &any_tensor::is_on_host);
        if (is_here || !made.checks.empty()) throw error(errc::graph_refused, "the batch cannot be computed in pieces");
    }
    for (std::size_t i = 0; i < outputs[0].size(); ++i) {
        std::vector<std::size_t> shape = outputs[0][i].shape();
        for (std::size_t p = 1; p < outputs.size(); ++p) shape.at(0) += outputs[p][i].shape().at(0);
        made.outputs.push_back(any_tensor::of_shape(outputs[0][i].type(), std::move(shape)));
    }
    const command_info info{"download"};
    const stream on = context.stream();
    if (const std::size_t bytes = made.block_bytes(); bytes != 0) made.block = on.allocate_host(bytes, info);
    // Copies to one block come one after the other: those of the first piece first.
    std::vector<std::size_t> at{0};
    for (const any_tensor& each : made.outputs) at.push_back(at.back() + landed_outputs::aligned(each.size_bytes()));
    for (const std::vector<any_tensor>& each : outputs) {
        for (std::size_t i = 0; i < each.size(); ++i) {
            const std::size_t bytes = each[i].size_bytes();
            if (bytes != 0) sluice::detail::copy_to_host(on, info, *made.block, at[i], *each[i].memory(), bytes);
            at[i] += bytes;
        }
    }
    return made;
}

any_tensor host_copy(const input_view& from) {
    std::byte* to = nullptr;
    any_tensor made =
        any_tensor::make_on_host(from.form().type(), {from.form().shape().begin(), from.form().shape().end()}, to);
    if (from.form().size_bytes() != 0) std::memcpy(to, from.data(), from.form().size_bytes());
    return made;
}

}  // namespace sluice::nn::detail

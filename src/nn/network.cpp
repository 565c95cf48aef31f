// SPDX-License-Identifier: Apache-2.0
#include "sluice/nn/network.hpp"

#include <limits>
#include <utility>

#include "nn/graph_of_model.hpp"
#include "nn/kept_calls.hpp"
#include "nn/landed_outputs.hpp"
#include "nn/prepared_network.hpp"

namespace sluice::nn {

const std::vector<value_info>& network::inputs() const noexcept { return made_->from().body.inputs; }
const std::vector<value_info>& network::outputs() const noexcept { return made_->from().body.outputs; }
const rounding_report& network::rounding() const noexcept { return made_->rounding(); }
const std::vector<std::string>& network::texts() const noexcept { return made_->from().texts; }

bool network::is_host_input(std::size_t input) const noexcept { return made_->is_host_input(input); }

forward_values network::forward(std::vector<any_tensor> inputs) const { return {*this, std::move(inputs)}; }
run_network network::run(std::vector<any_tensor> inputs) const { return {*this, std::move(inputs)}; }

void network::operator()(std::span<const input_view> inputs, std::span<const output_view> outputs) const {
    made_->calls()(inputs, outputs);
}
std::vector<any_tensor> network::operator()(std::span<const input_view> inputs) const { return made_->calls()(inputs); }

std::vector<any_tensor> network::infer(std::vector<any_tensor> inputs) const {
    return made_->run(nullptr, operators::place::nowhere, std::move(inputs));
}

std::vector<any_tensor> forward_values::submit(execution_context& context) && {
    return network_.inside().run(&context, operators::place::device, std::move(inputs_));
}
work_estimate forward_values::estimate() const { return {network_.inside().commands()}; }

pending<std::vector<any_tensor>> run_network::submit(execution_context& context) && {
    detail::landed_outputs landed = detail::submit_run(network_.inside(), context, std::move(inputs_));
    storage* const block = landed.block.get();
    return output::from(std::move(landed), block);
}
work_estimate run_network::estimate() const { return {network_.inside().commands()}; }

std::vector<known_operator> known_operators() {
    std::vector<known_operator> known;
    for (const operators::definition* const each : operators::all_operators()) {
        known.push_back({each->domain, each->name, each->since, {}});
        if (each->until != std::numeric_limits<std::int64_t>::max()) known.back().until = each->until;
    }
    return known;
}

void check_operators(const model& from, const own_operators& own) {
    static_cast<void>(detail::graph_of_model(from, operators::known_to_network(own)));
}

network make_network_operation::submit(execution_context& context) && {
    return network(std::make_shared<const detail::prepared_network>(std::move(model_), options_, context));
}

}  // namespace sluice::nn

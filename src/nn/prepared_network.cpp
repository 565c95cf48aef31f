// SPDX-License-Identifier: Apache-2.0
#include "nn/prepared_network.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "nn/device_constants.hpp"
#include "nn/graph_of_model.hpp"
#include "nn/graph_run.hpp"
#include "nn/kept_calls.hpp"
#include "nn/operators/run_memory.hpp"
#include "nn/passes/fixed_part.hpp"
#include "nn/passes/follow_rows.hpp"
#include "nn/passes/order.hpp"
#include "nn/passes/passes.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/execution_context.hpp"

namespace sluice::nn::detail {
namespace {

// Values of one name of a dimension have one length.
class bound_dimensions {
public:
    // The length that was bound before, if it is another one.
    std::optional<std::size_t> bind(const dimension& what, std::size_t length) {
        if (what.length) return *what.length == length ? std::nullopt : what.length;
        if (what.name.empty()) return {};
        const auto [at, is_new] = lengths_.emplace(what.name, length);
        return is_new || at->second == length ? std::nullopt : std::optional(at->second);
    }

private:
    std::map<std::string, std::size_t, std::less<>> lengths_;
};

}  // namespace

prepared_network::prepared_network(model from, const network_options& options, execution_context& context,
                                   pass_watch* watch)
    : model_(std::move(from)), known_(options.own), on_(context.device()), calls_(std::make_unique<kept_calls>(*this)) {
    body_ = graph_of_model(model_, known_);
    find_host_values(body_);
    if (watch != nullptr) watch->begin("model", "the nodes of the file", body_);
    take_front(options, context, watch);
    rounding_ = apply_passes(body_, model_, options.precision, context, watch);
    upload_constants(body_, context);
    drop_large_constants();
    if (front_ == nullptr) return;
    rounding_.rounded += front_->rounding_.rounded;
    rounding_.quantized += front_->rounding_.quantized;
    rounding_.kept.insert(rounding_.kept.begin(), front_->rounding_.kept.begin(), front_->rounding_.kept.end());
}

prepared_network::prepared_network(model names, prepared_graph body, const network_options& options,
                                   execution_context& context, pass_watch* watch)
    : model_(std::move(names)),
      known_(options.own),
      body_(std::move(body)),
      on_(context.device()),
      calls_(std::make_unique<kept_calls>(*this)) {
    find_host_values(body_);
    if (watch != nullptr)
        watch->begin("front", "what comes before shapes depend on numbers, as a network of its own", body_);
    rounding_ = apply_passes(body_, model_, options.precision, context, watch);
    upload_constants(body_, context);
    drop_large_constants();
}

// On a CPU. A GPU's numbers would have to come to the host before the rest is submitted, which needs a wait there.
void prepared_network::take_front(const network_options& options, execution_context& context, pass_watch* watch) {
    // Views of the inputs are what it is called with, and have at most eight dimensions.
    const auto fits = [](const value_info& each) {
        return each.shape && each.shape->size() <= view_form::most_dimensions;
    };
    if (context.device().kind() != device_kind::cpu || !std::ranges::all_of(model_.body.inputs, fits)) return;
    std::optional<prepared_graph> part = take_fixed_part(body_);
    if (!part) return;
    model names{.path = model_.path, .opsets = model_.opsets, .producer = model_.producer, .texts = {}, .body = {}};
    for (const slot each : part->inputs) {
        front_inputs_.push_back(static_cast<std::size_t>(std::ranges::find(body_.inputs, each) - body_.inputs.begin()));
        names.body.inputs.push_back(model_.body.inputs[front_inputs_.back()]);
    }
    // The front is called with views, also of inputs of which it needs the shape only.
    for (const std::size_t each : front_inputs_) body_.needed_on_host[body_.inputs[each]] = true;
    for (const slot each : part->outputs) names.body.outputs.push_back({.name = part->names[each], .shape = {}});
    for (const auto& [name, value] : model_.body.constants) names.body.constants.emplace(name, value);
    front_.reset(new prepared_network(std::move(names), std::move(*part), options, context, watch));
    if (watch != nullptr) watch->begin("rest", "what comes after the front", body_);
}

prepared_network::~prepared_network() = default;

// Steps that read a constant as it is have it in the body; what passes have packed would be there twice. Shapes hardly
// ever follow from many floats, and where they do, rows are not proven.
void prepared_network::drop_large_constants() noexcept {
    constexpr std::size_t large_bytes = 4096;
    constexpr std::array floats{io::dtype::f32, io::dtype::f16, io::dtype::bf16, io::dtype::f64};
    for (auto& [name, value] : model_.body.constants) {
        const bool is_float = std::ranges::find(floats, value.type) != floats.end();
        if (is_float && value.bytes->size() > large_bytes) value.bytes = nullptr;
    }
}

void prepared_network::forget_calls() const noexcept {
    calls_->forget();
    if (front_ != nullptr) front_->forget_calls();
}

row_independence prepared_network::rows() const {
    return row_independence_of_checked(model_, known_, rows::all_rules());
}

void prepared_network::require_fitting(const std::vector<any_tensor>& inputs) const {
    const std::vector<value_info>& expected = model_.body.inputs;
    const auto refuse = [&](const std::string& why, errc code = errc::shape_mismatch) {
        throw error(code, model_.path.string() + ": " + why);
    };
    if (inputs.size() != expected.size()) {
        refuse("the network takes " + std::to_string(expected.size()) + " inputs, and is given " +
               std::to_string(inputs.size()));
    }
    bound_dimensions bound;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        const value_info& what = expected[i];
        const any_tensor& given = inputs[i];
        const std::string name = "input " + in_quotes(what.name);
        if (!given) refuse(name + " is left out");
        if (given.type() != what.type) {
            refuse(name + " is " + std::string(io::to_string(what.type)) + ", and is given " +
                   std::string(io::to_string(given.type())));
        }
        if (is_host_input(i) && !given.is_on_host()) {
            refuse(name + " has to be in host memory: other shapes depend on its numbers", errc::unsupported);
        }
        if (!what.shape) continue;
        if (what.shape->size() != given.shape().size()) {
            refuse(name + " has " + std::to_string(what.shape->size()) + " dimensions, and is given " +
                   to_string(std::span(given.shape())));
        }
        for (std::size_t d = 0; d < given.shape().size(); ++d) {
            const auto other = bound.bind((*what.shape)[d], given.shape()[d]);
            if (!other) continue;
            const std::string& label = (*what.shape)[d].name;
            refuse(name + ": dimension " + std::to_string(d) + (label.empty() ? "" : ", " + in_quotes(label) + ",") +
                   " is " + std::to_string(*other) + ", and is given " + std::to_string(given.shape()[d]));
        }
    }
}

// What the front gives, as inputs after the others. It runs at once, as every step does whose numbers the host needs.
void prepared_network::add_front_values(operators::place where, std::vector<any_tensor>& inputs) const {
    std::vector<any_tensor> given;
    for (const std::size_t each : front_inputs_) given.push_back(inputs[each]);
    const bool has_numbers =
        std::ranges::all_of(given, [](const any_tensor& each) { return each.is_on_host() || each.elements() == 0; });
    std::vector<any_tensor> values;
    if (where == operators::place::device || (where == operators::place::nowhere && has_numbers)) {
        std::vector<input_view> views;
        for (const any_tensor& each : given) views.emplace_back(each.type(), each.bytes().data(), each.shape());
        values = front_->calls()(views);
    } else {
        values = front_->run(nullptr, where, std::move(given));
    }
    inputs.insert(inputs.end(), values.begin(), values.end());
}

std::vector<any_tensor> prepared_network::run(execution_context* context, operators::place where,
                                              std::vector<any_tensor> inputs,
                                              std::vector<operators::device_check>* checks) const {
    require_fitting(inputs);
    if (front_ != nullptr) add_front_values(where, inputs);
    operators::run_memory memory;
    return graph_run(model_, context, checks)(body_, std::move(inputs), nullptr, where);
}

}  // namespace sluice::nn::detail

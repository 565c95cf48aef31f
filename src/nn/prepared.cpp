// SPDX-License-Identifier: Apache-2.0
#include "sluice/nn/prepared.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "nn/nearest_name.hpp"
#include "nn/prepared_call.hpp"
#include "nn/prepared_network.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/runtime/detail/wait_checks.hpp"

namespace sluice::nn {
namespace {

using detail::prepared_inputs;
using detail::prepared_network;
using detail::view_form;

[[noreturn]] void refuse(const prepared_network& of, errc code, const std::string& why) {
    throw error(code, of.from().path.string() + ": " + why);
}

std::size_t place_named(const prepared_network& of, const std::vector<value_info>& among, const std::string& what,
                        std::string_view name) {
    const auto found = std::ranges::find(among, name, &value_info::name);
    if (found != among.end()) return static_cast<std::size_t>(found - among.begin());
    std::vector<std::string> known;
    known.reserve(among.size());
    for (const value_info& each : among) known.push_back(each.name);
    const std::string nearest = known.empty() ? "" : "; is " + in_quotes(detail::nearest_name(name, known)) + " meant?";
    refuse(of, errc::invalid_argument, "the network has no " + what + " " + in_quotes(name) + nearest);
}

void require_place(const prepared_network& of, const std::vector<value_info>& among, const std::string& what,
                   std::size_t index) {
    if (index < among.size()) return;
    refuse(of, errc::invalid_argument,
           "there is no " + what + " " + std::to_string(index) + "; there are " + std::to_string(among.size()));
}

// None, where a length is not said.
std::optional<std::vector<std::size_t>> shape_in(const value_info& of) {
    if (!of.shape) return {};
    std::vector<std::size_t> shape;
    for (const dimension& each : *of.shape) {
        if (!each.length) return {};
        shape.push_back(*each.length);
    }
    return shape;
}

// In the model's order. Whether they are the model's is found where the network is compiled.
prepared_inputs inputs_of(const prepared_network& of, std::span<const input_shape> given,
                          std::span<const fixed_input> fixed) {
    const std::vector<value_info>& inputs = of.from().body.inputs;
    std::vector<std::optional<std::vector<std::size_t>>> shapes(inputs.size());
    std::vector<any_tensor> numbers(inputs.size());
    const auto give = [&](std::string_view name, std::vector<std::size_t> shape) {
        const std::size_t at = place_named(of, inputs, "input", name);
        if (shapes[at]) refuse(of, errc::invalid_argument, "the shape of input " + in_quotes(name) + " is given twice");
        shapes[at] = std::move(shape);
        return at;
    };
    for (const input_shape& each : given) give(each.name, each.shape);
    for (const fixed_input& each : fixed) {
        const view_form& form = each.numbers.form();
        const std::size_t at = give(each.name, detail::lengths_of(form));
        const std::string name = "input " + in_quotes(each.name);
        if (!of.is_host_input(at)) {
            refuse(of, errc::invalid_argument,
                   name +
                       " is not fixed: its numbers decide neither about shapes nor about what is run; write them "
                       "before a run");
        }
        if (form.type() != inputs[at].type) {
            refuse(of, errc::invalid_argument,
                   name + " is " + std::string(io::to_string(inputs[at].type)) + ", and is fixed to numbers of " +
                       std::string(io::to_string(form.type())));
        }
        if (each.numbers.data() == nullptr && form.size_bytes() != 0)
            refuse(of, errc::invalid_argument, "the view of " + name + " has no memory");
        numbers[at] = detail::host_copy(each.numbers);
    }
    std::vector<view_form> forms;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (!shapes[i]) shapes[i] = shape_in(inputs[i]);
        if (!shapes[i]) {
            refuse(of, errc::shape_mismatch,
                   "the model does not say the whole shape of input " + in_quotes(inputs[i].name) + ": give one");
        }
        forms.emplace_back(inputs[i].type, *shapes[i]);
    }
    prepared_inputs made(std::move(forms));
    made.numbers = std::move(numbers);
    return made;
}

}  // namespace

prepared::prepared(std::shared_ptr<const prepared_network> of, std::unique_ptr<detail::prepared_call> made) noexcept
    : of_(std::move(of)), call_(std::move(made)) {}
prepared::prepared(prepared&&) noexcept = default;
prepared::~prepared() = default;

// The call goes before the network that it points to.
prepared& prepared::operator=(prepared&& from) noexcept {
    call_ = std::move(from.call_);
    of_ = std::move(from.of_);
    return *this;
}

output_view prepared::input(std::size_t index) const {
    if (is_fixed(index)) {
        refuse(*of_, errc::invalid_argument,
               "input " + in_quotes(of_->from().body.inputs[index].name) + " is fixed: it was given to prepare");
    }
    return call_->input(index);
}

bool prepared::is_fixed(std::size_t index) const {
    require_place(*of_, of_->from().body.inputs, "input", index);
    return call_->is_fixed(index);
}

input_view prepared::output(std::size_t index) const {
    require_place(*of_, of_->from().body.outputs, "output", index);
    return call_->output(index);
}

void prepared::run() {
    of_->on().throw_if_refusing();
    call_->run();
}

std::size_t prepared::memory_bytes() const noexcept { return call_->bytes(); }

std::size_t prepared::input_named(std::string_view name) const {
    return place_named(*of_, of_->from().body.inputs, "input", name);
}

std::size_t prepared::output_named(std::string_view name) const {
    return place_named(*of_, of_->from().body.outputs, "output", name);
}

void prepared::require_type(io::dtype has, io::dtype wanted) const {
    if (has == wanted) return;
    refuse(*of_, errc::invalid_argument,
           "the elements are " + std::string(io::to_string(has)) + ", and are asked for as " +
               std::string(io::to_string(wanted)));
}

prepared network::prepare(std::span<const input_shape> shapes, std::span<const fixed_input> fixed) const {
    device& on = made_->on();
    on.throw_if_refusing();
    sluice::detail::require_may_wait(on, "prepare");
    std::string why_not;
    auto call = detail::try_to_prepare(*made_, inputs_of(*made_, shapes, fixed), why_not);
    if (call && std::ranges::any_of(call->outputs().outputs, [](const any_tensor& each) {
            return each.shape().size() > view_form::most_dimensions;
        }))
        why_not = "an output has more than 8 dimensions";
    if (!why_not.empty()) refuse(*made_, errc::unsupported, "the network cannot be prepared: " + why_not);
    return {made_, detail::in_pieces_if_faster(*made_, std::move(call))};
}

}  // namespace sluice::nn

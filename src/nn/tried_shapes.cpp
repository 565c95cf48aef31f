// SPDX-License-Identifier: Apache-2.0
#include "nn/tried_shapes.hpp"

#include <algorithm>
#include <memory>
#include <variant>

#include "nn/operators/node_call.hpp"
#include "nn/operators/own.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::nn::detail {
namespace {

using operators::node_call;
using operators::place;

// Elements are computed of what may decide shapes, which is small.
constexpr std::size_t most_computed_bytes = std::size_t{64} << 10;
constexpr std::size_t most_names_told = 8;

// Multiples of 240, so that they can be divided as ordinary networks do; each length is that of one name in one try.
std::size_t length_of(std::size_t name, std::size_t of_try) { return 240 * (tries * (name + 1) + of_try); }

bool has_graph(const node& which) {
    return std::ranges::any_of(which.attributes, [](const auto& each) {
        return std::holds_alternative<std::shared_ptr<const graph>>(each.second);
    });
}

std::vector<any_tensor> carried_out(const node_to_try& which, const std::vector<any_tensor>& inputs, place where) {
    operators::run_environment environment{
        .path = &which.path, .command_name = {}, .context = nullptr, .run_graph = {}, .own = which.what.own};
    std::vector<any_tensor> outputs(which.which.outputs.size());
    node_call call(environment, which.which, which.position, which.opset, where, inputs, outputs);
    which.what.run(call);
    for (std::size_t i = 0; i < outputs.size(); ++i)
        if (!outputs[i]) call.refuse("does not give its output " + std::to_string(i));
    return outputs;
}

bool is_small(const std::vector<any_tensor>& all) {
    std::size_t bytes = 0;
    for (const any_tensor& each : all) bytes += each ? std::min(each.size_bytes(), most_computed_bytes + 1) : 0;
    return bytes <= most_computed_bytes;
}

}  // namespace

tried_value tried_lengths::value_of(io::dtype type, const std::vector<dimension>& shape) {
    std::array<std::vector<std::size_t>, tries> lengths;
    std::vector<std::string> names = names_;
    for (const dimension& each : shape) {
        const auto known = each.name.empty() ? names.end() : std::ranges::find(names, each.name);
        const auto at = static_cast<std::size_t>(known - names.begin());
        if (!each.length && known == names.end()) names.push_back(each.name);
        for (std::size_t t = 0; t < tries; ++t) lengths[t].push_back(each.length ? *each.length : length_of(at, t));
    }
    tried_value made;
    for (std::size_t t = 0; t < tries; ++t) made[t] = any_tensor::of_shape(type, std::move(lengths[t]));
    names_ = std::move(names);
    return made;
}

std::optional<std::vector<dimension>> tried_lengths::shape_of(const tried_value& value) const {
    if (!is_known(value) || value[0].shape().size() != value[1].shape().size()) return {};
    std::vector<dimension> made;
    for (std::size_t d = 0; d < value[0].shape().size(); ++d) {
        dimension each;
        if (value[0].shape()[d] == value[1].shape()[d]) {
            each.length = value[0].shape()[d];
        } else {
            for (std::size_t name = 0; name < names_.size(); ++name) {
                if (value[0].shape()[d] == length_of(name, 0) && value[1].shape()[d] == length_of(name, 1))
                    each.name = names_[name];
            }
        }
        made.push_back(std::move(each));
    }
    return made;
}

std::string tried_lengths::text(std::size_t of_try) const {
    std::string made;
    for (std::size_t name = 0; name < names_.size() && name < most_names_told; ++name) {
        made += (made.empty() ? "" : ", ") + (names_[name].empty() ? "?" : printable(names_[name], 40)) + " = " +
                std::to_string(length_of(name, of_try));
    }
    return made;
}

std::optional<std::vector<any_tensor>> try_node(const node_to_try& which, const std::vector<any_tensor>& inputs) {
    if (has_graph(which.which)) return {};
    bool is_computable = !which.what.is_random;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (which.which.inputs[i].empty()) continue;
        if (!inputs[i]) return {};
        if ((which.what.shape_inputs & operators::input_bit(i)) != 0) continue;
        if (inputs[i].is_on_host() || inputs[i].elements() == 0) continue;
        if ((which.what.host_inputs & operators::input_bit(i)) != 0) return {};
        is_computable = false;
    }
    std::vector<any_tensor> outputs = carried_out(which, inputs, place::nowhere);
    if (!is_computable || !is_small(inputs) || !is_small(outputs)) return outputs;
    try {
        return carried_out(which, inputs, place::host);
    } catch (const operators::needs_device&) {
        return outputs;
    }
}

}  // namespace sluice::nn::detail

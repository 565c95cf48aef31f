// SPDX-License-Identifier: Apache-2.0
#include "sluice/nn/to_layers.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/base/file_error.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::nn {
namespace {

constexpr std::array<std::pair<std::string_view, activation>, 5> activations = {{{"Relu", activation::relu},
                                                                                 {"Gelu", activation::gelu},
                                                                                 {"Sigmoid", activation::sigmoid},
                                                                                 {"Tanh", activation::tanh},
                                                                                 {"Softmax", activation::softmax}}};

struct known_operator {
    std::string_view op;
    std::size_t inputs = 1;  // at most
    std::array<std::string_view, 4> attributes = {};
    std::size_t outputs = 1;  // at most
};
constexpr std::array<known_operator, 12> operators = {{{"Add", 2},
                                                       {"Constant", 0, {"value"}},
                                                       {"Dropout", 3, {"ratio", "seed"}, 2},
                                                       {"Flatten", 1, {"axis"}},
                                                       {"Gelu", 1, {"approximate"}},
                                                       {"Gemm", 3, {"alpha", "beta", "transA", "transB"}},
                                                       {"Identity"},
                                                       {"MatMul", 2},
                                                       {"Relu"},
                                                       {"Sigmoid"},
                                                       {"Softmax", 1, {"axis"}},
                                                       {"Tanh"}}};

const known_operator* find_operator(const node& each) {
    const auto found = std::ranges::find(operators, each.op, &known_operator::op);
    return each.domain.empty() && found != operators.end() ? &*found : nullptr;
}

std::optional<activation> activation_of(const node& each) {
    for (const auto& [op, value] : activations)
        if (each.op == op) return value;
    return std::nullopt;
}

class converter {
public:
    explicit converter(const model& network) : network_(network) {
        for (const auto& [name, value] : network.body.constants) constants_[name] = &value;
    }

    std::vector<mlp_layer> convert() {
        const graph& body = network_.body;
        if (body.inputs.size() != 1 || body.outputs.size() != 1) {
            refuse_network("has " + std::to_string(body.inputs.size()) + " inputs and " +
                           std::to_string(body.outputs.size()) + " outputs; supported are networks with one of each");
        }
        require_known_operators();
        const value_info& input = body.inputs.front();
        if (input.type != io::dtype::f32)
            refuse("input " + in_quotes(input.name), "is of type " + std::string(to_string(input.type)) + ", not f32");
        current_ = input.name;
        for (position_ = 0; position_ < body.nodes.size(); ++position_) take(body.nodes[position_]);
        if (made_.empty()) refuse_network("has no layers");
        if (body.outputs.front().name != current_)
            refuse("output " + in_quotes(body.outputs.front().name), "is not what the last node gives");
        require_width(input);
        require_output(body.outputs.front());
        return std::move(made_);
    }

private:
    [[noreturn]] void refuse(std::string_view field, std::string_view why) const {
        throw file_error(network_.path, file_error::no_offset, field, why);
    }
    [[noreturn]] void refuse_network(std::string_view why) const { refuse(std::string_view(), why); }
    [[noreturn]] void refuse(const node& each, std::string_view why) const { refuse(label_of(each, position_), why); }

    void require_known_operators() const {
        std::string unknown;
        for (std::size_t at = 0; at < network_.body.nodes.size(); ++at) {
            const node& each = network_.body.nodes[at];
            if (find_operator(each) != nullptr) continue;
            unknown += (unknown.empty() ? "" : ", ") + label_of(each, at);
            if (!each.domain.empty()) unknown += " of " + printable(each.domain);
        }
        if (unknown.empty()) return;
        std::string accepted;
        for (const known_operator& each : operators) accepted += (accepted.empty() ? "" : ", ") + std::string(each.op);
        refuse_network("has operators that are not supported: " + unknown + ". Supported are " + accepted);
    }

    // What it has beyond what is understood would be ignored.
    void require_known_parts(const node& each) const {
        const known_operator& known = *find_operator(each);
        if (each.inputs.size() > known.inputs || each.outputs.size() > known.outputs) {
            refuse(each, "has " + std::to_string(each.inputs.size()) + " inputs and " +
                             std::to_string(each.outputs.size()) + " outputs; supported are at most " +
                             std::to_string(known.inputs) + " and " + std::to_string(known.outputs));
        }
        for (const auto& [name, value] : each.attributes) {
            if (!name.empty() && std::ranges::find(known.attributes, name) != known.attributes.end()) continue;
            std::string accepted;
            for (const std::string_view one : known.attributes) accepted += (one.empty() ? "" : " ") + std::string(one);
            refuse(each, "has the attribute " + in_quotes(name) + ", which is not supported; supported are" +
                             (accepted.empty() ? " none" : accepted));
        }
    }

    // Where the file says the output's type and width, it must be the last layer's.
    void require_output(const value_info& output) const {
        const std::string label = "output " + in_quotes(output.name);
        if (output.type != io::dtype::f32)
            refuse(label, "is of type " + std::string(to_string(output.type)) + ", not f32");
        if (!output.shape) return;
        if (output.shape->size() != 2) refuse(label, "does not have two dimensions");
        const dimension& width = output.shape->back();
        if (width.length && *width.length != made_.back().out_features) {
            refuse(label, "has " + std::to_string(*width.length) + " features a row; the last layer gives " +
                              std::to_string(made_.back().out_features));
        }
    }

    // The input's number of features, where the file says it.
    void require_width(const value_info& input) const {
        if (!input.shape) return;
        if (input.shape->empty()) refuse("input " + in_quotes(input.name), "has no dimensions");
        std::size_t features = 1;
        for (std::size_t i = 1; i < input.shape->size(); ++i) {
            const dimension& each = (*input.shape)[i];
            if (!each.length) return;
            features *= *each.length;
        }
        if (input.shape->size() > 2 && !is_flattened_)
            refuse("input " + in_quotes(input.name), "has more than two dimensions, and nothing flattens it");
        if (input.shape->size() < 2 || features != made_.front().in_features) {
            refuse("input " + in_quotes(input.name), "has " + std::to_string(input.shape->size() < 2 ? 0 : features) +
                                                         " features a row; the first layer takes " +
                                                         std::to_string(made_.front().in_features));
        }
    }

    std::string_view input(const node& each, std::size_t at) const {
        return at < each.inputs.size() ? std::string_view(each.inputs[at]) : std::string_view();
    }
    bool takes_current(const node& each, std::size_t at = 0) const { return input(each, at) == current_; }
    void require_current(const node& each) const {
        if (!takes_current(each))
            refuse(each, "takes the value " + in_quotes(input(each, 0)) +
                             "; supported is a chain, where each node takes " + "what the node before it gives, here " +
                             in_quotes(current_));
    }
    void gives(const node& each) {
        if (each.outputs.empty()) refuse(each, "gives nothing");
        current_ = each.outputs.front();
    }

    std::int64_t integer(const node& each, std::string_view name, std::int64_t without) const {
        const std::int64_t* const value = find<std::int64_t>(each, name);
        return value != nullptr ? *value : without;
    }
    template <typename T>
    const T* find(const node& each, std::string_view name) const {
        try {
            return each.find<T>(name);
        } catch (const error& failure) {
            refuse(each, failure.what());
        }
    }

    const constant& floats(const node& each, std::size_t at, std::string_view what) const {
        const auto found = constants_.find(input(each, at));
        if (found == constants_.end())
            refuse(each, "takes the value " + in_quotes(input(each, at)) + " as " + std::string(what) +
                             ", which is no constant");
        if (found->second->type != io::dtype::f32) {
            refuse(each, "has a " + std::string(what) + " of type " + std::string(to_string(found->second->type)) +
                             ", not f32");
        }
        return *found->second;
    }

    static std::vector<float> values_of(const constant& from) {
        std::vector<float> values(from.elements());
        if (!values.empty()) std::memcpy(values.data(), from.bytes->data(), from.bytes->size());
        return values;
    }

    void take(const node& each) {
        require_known_parts(each);
        if (each.op == "Constant") return take_constant(each);
        if (each.op == "Add") return take_add(each);
        require_current(each);
        if (const std::optional<activation> after = activation_of(each)) {
            take_activation(each, *after);
        } else if (each.op == "Gemm") {
            take_gemm(each);
        } else if (each.op == "MatMul") {
            add_layer(each, floats(each, 1, "weight"), false, 1);
        } else if (each.op == "Flatten") {
            if (integer(each, "axis", 1) != 1)
                refuse(each, "flattens along another axis than 1, which is not supported");
            is_flattened_ = is_flattened_ || made_.empty();  // what a layer gives has two dimensions
        } else if (each.op == "Dropout") {
            // In inference it passes its input on. Since operator set 12 an input can ask for training.
            if (!input(each, 2).empty()) refuse(each, "may be in training mode, which is not supported");
        }
        gives(each);
    }

    void take_constant(const node& each) {
        const constant* const value = find<constant>(each, "value");
        if (value == nullptr) refuse(each, "is a constant in another form than a tensor, which is not supported");
        if (each.outputs.empty()) refuse(each, "gives nothing");
        constants_[each.outputs.front()] = value;
    }

    void take_add(const node& each) {
        const std::size_t at = takes_current(each) ? 1 : 0;
        if (at == 0 && !takes_current(each, 1)) require_current(each);
        if (made_.empty() || !may_take_bias_) refuse(each, "adds to something that is not a product without a bias");
        set_bias(each, floats(each, at, "bias"), 1);
        gives(each);
    }

    void take_activation(const node& each, activation after) {
        if (made_.empty()) refuse(each, "comes before the first layer, which is not supported");
        if (made_.back().after != activation::none)
            refuse(each, "follows the activation " + std::string(to_string(made_.back().after)) +
                             "; supported is one after each layer");
        if (after == activation::gelu) {
            const std::string* const form = find<std::string>(each, "approximate");
            if (form != nullptr && *form != "none")
                refuse(each, "is approximated (" + in_quotes(*form) + "); supported is the exact form, \"none\"");
        }
        if (after == activation::softmax) {
            const std::int64_t axis = integer(each, "axis", 1);
            if (axis != 1 && axis != -1)
                refuse(each, "is over axis " + std::to_string(axis) + "; supported are the rows");
        }
        made_.back().after = after;
        may_take_bias_ = false;
    }

    void take_gemm(const node& each) {
        if (integer(each, "transA", 0) != 0) refuse(each, "transposes its input, which is not supported");
        const float* const alpha = find<float>(each, "alpha");
        add_layer(each, floats(each, 1, "weight"), integer(each, "transB", 0) != 0, alpha != nullptr ? *alpha : 1);
        may_take_bias_ = input(each, 2).empty();
        if (may_take_bias_) return;
        const float* const beta = find<float>(each, "beta");
        set_bias(each, floats(each, 2, "bias"), beta != nullptr ? *beta : 1);
    }

    // `is_transposed`: the weight is [out, in], as mlp_layer's.
    void add_layer(const node& each, const constant& weight, bool is_transposed, float factor) {
        if (weight.shape.size() != 2 || weight.elements() == 0)
            refuse(each, "has a weight that is no matrix, or an empty one");
        const std::size_t in = weight.shape[is_transposed ? 1 : 0], out = weight.shape[is_transposed ? 0 : 1];
        if (!made_.empty() && made_.back().out_features != in) {
            refuse(each, "takes " + std::to_string(in) + " features; the layer before it gives " +
                             std::to_string(made_.back().out_features));
        }
        std::vector<float> values = values_of(weight);
        if (!is_transposed) {
            std::vector<float> turned(values.size());
            for (std::size_t row = 0; row < in; ++row)
                for (std::size_t column = 0; column < out; ++column)
                    turned[column * in + row] = values[row * out + column];
            values = std::move(turned);
        }
        if (factor != 1)
            for (float& value : values) value *= factor;
        made_.push_back({in, out, std::move(values), {}, activation::none, name_of(each)});
        may_take_bias_ = true;
    }

    // PyTorch calls the weight "fc1.weight".
    std::string name_of(const node& each) const {
        const std::string_view weight = input(each, 1);
        if (weight.ends_with(".weight")) return std::string(weight.substr(0, weight.size() - 7));
        return each.name.empty() ? "layer " + std::to_string(made_.size() + 1) : each.name;
    }

    void set_bias(const node& each, const constant& bias, float factor) {
        mlp_layer& layer = made_.back();
        const std::vector<std::size_t>& of = bias.shape;
        const bool fits = (of.size() == 1 && of[0] == layer.out_features) ||
                          (of.size() == 2 && of[0] == 1 && of[1] == layer.out_features);
        if (!fits) {
            refuse(each, "has a bias that is no row of " + std::to_string(layer.out_features) +
                             " numbers, one for each feature of the layer");
        }
        layer.bias = values_of(bias);
        if (factor != 1)
            for (float& value : layer.bias) value *= factor;
        may_take_bias_ = false;
    }

    const model& network_;
    std::vector<mlp_layer> made_;
    std::map<std::string_view, const constant*> constants_;
    std::string current_;         // the value that the nodes so far give
    std::size_t position_ = 0;    // of the node that is taken
    bool may_take_bias_ = false;  // current_ is a product to which nothing was added
    bool is_flattened_ = false;   // before the first layer
};

}  // namespace

std::vector<mlp_layer> to_layers(const model& network) { return converter(network).convert(); }

}  // namespace sluice::nn

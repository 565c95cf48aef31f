// SPDX-License-Identifier: Apache-2.0
#include "sluice/nn/model_builder.hpp"

#include <utility>

#include "nn/nearest_name.hpp"
#include "nn/written_model.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/nn/onnx.hpp"

namespace sluice::nn {

using detail::left_out;
using detail::tried_value;

namespace {

constant copied_constant(io::dtype type, std::vector<std::size_t> shape, std::span<const std::byte> bytes) {
    return {type, std::move(shape),
            std::make_shared<const std::string>(reinterpret_cast<const char*>(bytes.data()), bytes.size())};
}

}  // namespace

model_builder::model_builder(std::string name, model_builder_options options, source_location location)
    : written_(std::make_unique<detail::written_model>(std::move(name), options)) {
    if (options.opset >= oldest_onnx_opset && options.opset <= newest_onnx_opset) return;
    written_->refuse(location, "is written for operator set " + std::to_string(options.opset) + "; " +
                                   std::to_string(oldest_onnx_opset) + " to " + std::to_string(newest_onnx_opset) +
                                   " are known");
}
model_builder::~model_builder() = default;

std::size_t model_builder::place_of(const value& which, const source_location& location) const {
    if (which.of_ == nullptr) return left_out;
    if (which.of_ != this) written_->refuse(location, "takes a value of another model_builder");
    return which.at_;
}

// --- inputs and constants -------------------------------------------------------------------------------------

model_builder::value model_builder::input(std::string name, const std::vector<length_or_name>& shape, io::dtype type,
                                          source_location location) {
    std::vector<dimension> dimensions;
    for (const length_or_name& each : shape) {
        dimension made{.length = {}, .name = each.name()};
        if (each.length()) {
            if (*each.length() < 0) {
                written_->refuse(location, "the input " + in_quotes(name) + " has the length " +
                                               std::to_string(*each.length()) +
                                               "; one that is known when the network runs has a name");
            }
            made.length = static_cast<std::size_t>(*each.length());
        }
        dimensions.push_back(std::move(made));
    }
    return {this, written_->add_input({std::move(name), type, std::move(dimensions)}, location)};
}

model_builder::value model_builder::add_numbers(io::dtype type, std::vector<std::size_t> shape,
                                                std::span<const std::byte> bytes, const source_location& location) {
    if (io::byte_count(shape, type) != bytes.size()) {
        written_->refuse(location,
                         "a constant " + std::string(io::to_string(type)) + " " + to_string(std::span(shape)) +
                             " is given " + std::to_string(bytes.size() / io::size_of(type)) + " numbers",
                         errc::shape_mismatch);
    }
    return {this, written_->add_constant({}, any_tensor(copied_constant(type, std::move(shape), bytes)), location)};
}

model_builder::value model_builder::constant(const io::safetensors_file& file, std::string_view tensor,
                                             source_location location) {
    if (const io::tensor_entry* const found = file.find(tensor)) return constant(*found, location);
    std::vector<std::string> names;
    for (const io::tensor_entry& each : file.tensors()) names.push_back(each.name);
    written_->refuse(location,
                     printable(file.file().path().string()) + " has no tensor " + in_quotes(tensor) +
                         (names.empty() ? "" : "; the nearest is " + in_quotes(detail::nearest_name(tensor, names))));
}

model_builder::value model_builder::constant(const io::tensor_entry& of_file, source_location location) {
    any_tensor contents(copied_constant(of_file.type, of_file.shape, of_file.bytes));
    return {this, written_->add_constant(of_file.name, std::move(contents), location)};
}

model_builder::value model_builder::constant(const any_tensor& numbers, source_location location) {
    return {this, written_->add_constant({}, numbers, location)};
}

// --- nodes ----------------------------------------------------------------------------------------------------

model_builder::values model_builder::node_with_outputs(std::size_t outputs, std::string_view op, const values& inputs,
                                                       const attributes& with, source_location location) {
    if (outputs == 0) written_->refuse(location, "the node of " + in_quotes(op) + " has no outputs");
    std::vector<std::size_t> places;
    for (const value& each : inputs) places.push_back(place_of(each, location));
    // An input that is left out at the end is not there.
    while (!places.empty() && places.back() == left_out) places.pop_back();
    values made;
    for (const std::size_t each : written_->add_node(outputs, op, std::move(places), with, location))
        made.push_back({this, each});
    return made;
}

model_builder::value model_builder::node(std::string_view op, const values& inputs, const attributes& with,
                                         source_location location) {
    return node_with_outputs(1, op, inputs, with, location).front();
}

template <typename Function>
model_builder::value model_builder::all_or_none(const Function& function) {
    const auto before = written_->now();
    try {
        return function();
    } catch (...) {
        written_->undo(before);
        throw;
    }
}

model_builder::value model_builder::linear(value x, value weight, value bias, source_location location) {
    const std::size_t place = place_of(x, location);
    if (place == left_out) written_->refuse(location, "linear has no x");
    const tried_value& tried = written_->tried(place);
    if (!detail::is_known(tried))
        written_->refuse(location, "linear needs the number of dimensions of x, which is not known here",
                         errc::unsupported);
    if (tried[0].shape().size() <= 2) return node("Gemm", {x, weight, bias}, {{"transB", 1}}, location);
    return all_or_none([&] {
        const value turned = node("Transpose", {weight}, {{"perm", {1, 0}}}, location);
        const value product = node("MatMul", {x, turned}, {}, location);
        return bias == value() ? product : node("Add", {product, bias}, {}, location);
    });
}

model_builder::value model_builder::conv(value x, value weight, value bias, const window& how,
                                         source_location location) {
    attributes with{{"group", how.groups}};
    if (!how.strides.empty()) with.emplace_back("strides", how.strides);
    if (!how.dilations.empty()) with.emplace_back("dilations", how.dilations);
    if (!how.padding.empty()) {
        std::vector<std::int64_t> pads = how.padding;  // before, then after
        pads.insert(pads.end(), how.padding.begin(), how.padding.end());
        with.emplace_back("pads", std::move(pads));
    }
    return node("Conv", {x, weight, bias}, with, location);
}

model_builder::value model_builder::add(value a, value b, source_location location) {
    return node("Add", {a, b}, {}, location);
}
model_builder::value model_builder::multiply(value a, value b, source_location location) {
    return node("Mul", {a, b}, {}, location);
}
model_builder::value model_builder::matmul(value a, value b, source_location location) {
    return node("MatMul", {a, b}, {}, location);
}
model_builder::value model_builder::relu(value x, source_location location) { return node("Relu", {x}, {}, location); }
model_builder::value model_builder::sigmoid(value x, source_location location) {
    return node("Sigmoid", {x}, {}, location);
}
model_builder::value model_builder::tanh(value x, source_location location) { return node("Tanh", {x}, {}, location); }
model_builder::value model_builder::gelu(value x, source_location location) { return node("Gelu", {x}, {}, location); }
model_builder::value model_builder::softmax(value x, std::int64_t axis, source_location location) {
    return node("Softmax", {x}, {{"axis", axis}}, location);
}
model_builder::value model_builder::flatten(value x, std::int64_t axis, source_location location) {
    return node("Flatten", {x}, {{"axis", axis}}, location);
}
model_builder::value model_builder::reshape(value x, const std::vector<std::int64_t>& shape, source_location location) {
    return all_or_none([&] { return node("Reshape", {x, constant(shape, {shape.size()}, location)}, {}, location); });
}

// --- outputs --------------------------------------------------------------------------------------------------

std::string model_builder::describe(value of, source_location location) const {
    const std::size_t place = place_of(of, location);
    if (place == left_out) return "nothing";
    const tried_value& tried = written_->tried(place);
    if (!detail::is_known(tried)) return "?";
    std::string text = std::string(io::to_string(tried[0].type())) + " ";
    const auto shape = written_->lengths().shape_of(tried);
    if (!shape) return text + "?";
    text += "[";
    for (const dimension& each : *shape) {
        if (text.back() != '[') text += ", ";
        text += each.length ? std::to_string(*each.length) : each.name.empty() ? "?" : each.name;
    }
    return text + "]";
}

void model_builder::output(std::string name, value of, source_location location) {
    const std::size_t place = place_of(of, location);
    if (place == left_out) written_->refuse(location, "the output " + in_quotes(name) + " is no value");
    const tried_value& tried = written_->tried(place);
    if (!detail::is_known(tried)) {
        written_->refuse(location,
                         "the type of the output " + in_quotes(name) +
                             " depends on what is known when the network runs: say it, output(name, value, type)");
    }
    output(std::move(name), of, tried[0].type(), location);
}

void model_builder::output(std::string name, value of, io::dtype type, source_location location) {
    written_->add_output(std::move(name), place_of(of, location), type, location);
}

model model_builder::finish(source_location location) const {
    if (!written_->has_outputs()) written_->refuse(location, "has no outputs");
    return written_->finished();
}

}  // namespace sluice::nn

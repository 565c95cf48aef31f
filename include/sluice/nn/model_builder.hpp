// SPDX-License-Identifier: Apache-2.0
// model_builder: writes a network in C++, and checks each node where it is written.
//
//     nn::model_builder build("digits");
//     const auto pixels = build.input("pixels", {"rows", 64});
//     const auto hidden = build.relu(build.linear(pixels, build.constant(w1, {32, 64}), build.constant(b1, {32})));
//     const auto logits = build.linear(hidden, build.constant(w2, {10, 32}), build.constant(b2, {10}));
//     build.output("probabilities", build.node("Softmax", {logits}, {{"axis", -1}}));
//     const nn::network digits = sync(nn::make_network(build.finish()), pool);
//
// A dimension with a name has any length: a network that fits only some lengths of it is refused, so write these as
// numbers. To find that out the builder infers the shapes of all values for two lengths of each name, which messages
// name. What it cannot know, because a shape depends on numbers that are known when the network runs, is checked then.
//
// Errors: error (errc::invalid_argument, shape_mismatch, unsupported) with the line of the call that is wrong, and the
// builder is as before. For an operator that does not exist the error names the nearest; for an attribute, all that
// there are.
//
// Thread safety: none.
//
// All members that add to the network cost the inference of the types and shapes of what they add, twice, for the two
// lengths that are tried; constant also copies its numbers, and finish copies the network without its numbers.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "sluice/base/source_location.hpp"
#include "sluice/io/safetensors.hpp"
#include "sluice/nn/any_tensor.hpp"
#include "sluice/nn/model.hpp"
#include "sluice/nn/own_operator.hpp"

namespace sluice::nn {

namespace detail {
class written_model;
}

// The length of an input's dimension: a number, or a name for one that is known when the network runs.
class length_or_name {
public:
    template <std::integral Length>
    length_or_name(Length length) : length_(static_cast<std::int64_t>(length)) {}  // a number of 0 or more
    template <std::convertible_to<std::string_view> Name>
    length_or_name(const Name& name) : name_(std::string_view(name)) {}  // a name that stands for the length

    const std::optional<std::int64_t>& length() const noexcept { return length_; }  // none where there is a name
    const std::string& name() const noexcept { return name_; }                      // empty where there is a number

private:
    std::optional<std::int64_t> length_;
    std::string name_;
};

// An attribute with its name: {"axis", 1}, {"alpha", 0.5}, {"mode", "linear"}, {"pads", {1, 1, 1, 1}}. Integers become
// std::int64_t, and numbers with a fraction float, as ONNX has them.
struct named_attribute {
    template <std::integral Number>
    named_attribute(std::string of, Number number) : name(std::move(of)), value(static_cast<std::int64_t>(number)) {}
    template <std::floating_point Number>
    named_attribute(std::string of, Number number) : name(std::move(of)), value(static_cast<float>(number)) {}
    template <std::convertible_to<std::string_view> Text>
    named_attribute(std::string of, const Text& text)
        : name(std::move(of)), value(std::string(std::string_view(text))) {}
    template <std::integral Number>
    named_attribute(std::string of, std::initializer_list<Number> numbers)
        : name(std::move(of)), value(std::vector<std::int64_t>(numbers.begin(), numbers.end())) {}
    template <std::floating_point Number>
    named_attribute(std::string of, std::initializer_list<Number> numbers)
        : name(std::move(of)), value(std::vector<float>(numbers.begin(), numbers.end())) {}
    // A constant, a vector, a graph. (A template, so that {"pads", {}} is no integer.)
    template <typename Other>
    requires(std::constructible_from<attribute, Other> && !std::is_arithmetic_v<Other> &&
             !std::convertible_to<Other, std::string_view>)
    named_attribute(std::string of, Other other) : name(std::move(of)), value(std::move(other)) {}

    std::string name;  // "axis"
    attribute value;   // its number, numbers, text, constant or graph
};

// How a network is written.
struct model_builder_options {
    own_operators own = {};  // operators of your own, in addition to those of ONNX
    // The version of ONNX's operators, which fixes what they mean. It does not follow newer versions of Sluice.
    std::int64_t opset = 28;
};

class model_builder {
public:
    // A value of the network that is written. It belongs to its builder; a default one is an input that is left out.
    class value {
    public:
        value() : of_(nullptr), at_(0) {}  // an input that is left out
        friend bool operator==(const value&, const value&) = default;

    private:
        friend class model_builder;
        value(const model_builder* of, std::size_t at) : of_(of), at_(at) {}
        const model_builder* of_;
        std::size_t at_;
    };
    using values = std::vector<value>;                // several, such as the inputs of a node
    using attributes = std::vector<named_attribute>;  // of one node

    // The name is for messages.
    explicit model_builder(std::string name, model_builder_options options = {},
                           source_location location = source_location::current());
    model_builder(const model_builder&) = delete;  // values belong to it
    model_builder& operator=(const model_builder&) = delete;
    ~model_builder();

    // An input of the network. Refuses a length below 0 with errc::invalid_argument.
    value input(std::string name, const std::vector<length_or_name>& shape, io::dtype type = io::dtype::f32,
                source_location location = source_location::current());

    // Numbers that the network contains. The bytes are copied; a constant or an any_tensor in host memory shares them.
    template <typename T>
    value constant(const std::vector<T>& numbers, std::vector<std::size_t> shape,
                   source_location location = source_location::current()) {
        return add_numbers(io::dtype_of<T>, std::move(shape), std::as_bytes(std::span(numbers)), location);
    }
    template <typename T>
    value constant(std::initializer_list<T> numbers, std::vector<std::size_t> shape,
                   source_location location = source_location::current()) {
        return add_numbers(io::dtype_of<T>, std::move(shape), std::as_bytes(std::span(numbers.begin(), numbers.size())),
                           location);
    }
    template <typename T>
    requires(std::is_arithmetic_v<T>)
    value constant(T number, source_location location = source_location::current()) {
        return add_numbers(io::dtype_of<T>, {}, std::as_bytes(std::span(&number, 1)), location);
    }
    value constant(const io::safetensors_file& file, std::string_view tensor,
                   source_location location = source_location::current());
    value constant(const io::tensor_entry& of_file, source_location location = source_location::current());
    value constant(const any_tensor& numbers, source_location location = source_location::current());

    // Any operator, with its first output: "Relu", "ai.onnx.ml.Scaler", "com.example.Swish" (docs/operators.md). Inputs
    // and attributes are those of the ONNX standard.
    value node(std::string_view op, const values& inputs, const attributes& with = {},
               source_location location = source_location::current());
    // The same with several outputs.
    values node_with_outputs(std::size_t outputs, std::string_view op, const values& inputs,
                             const attributes& with = {}, source_location location = source_location::current());

    // The common ones. A linear layer has the weight as PyTorch keeps it, [out, in]; x has two dimensions or more.
    value linear(value x, value weight, value bias = {}, source_location location = source_location::current());
    // How the window of a convolution moves.
    struct window {
        std::vector<std::int64_t> strides = {}, padding = {},
                                  dilations = {};  // one for each dimension; padding 0 or both ends
        std::int64_t groups = 1;                   // of channels and filters that do not mix
    };
    // x [batch, channels, ...], weight [filters, channels / groups, ...]
    value conv(value x, value weight, value bias, const window& how,
               source_location location = source_location::current());
    value conv(value x, value weight, value bias = {}, source_location location = source_location::current()) {
        return conv(x, weight, bias, {}, location);
    }
    // Adds element by element; the shapes are broadcast as ONNX does.
    value add(value a, value b, source_location location = source_location::current());
    // Multiplies element by element; the shapes are broadcast as ONNX does.
    value multiply(value a, value b, source_location location = source_location::current());
    // ONNX's MatMul: a product of matrices, or of batches of them.
    value matmul(value a, value b, source_location location = source_location::current());
    value relu(value x, source_location location = source_location::current());     // max(x, 0)
    value sigmoid(value x, source_location location = source_location::current());  // 1 / (1 + exp(-x))
    value tanh(value x, source_location location = source_location::current());     // the hyperbolic tangent
    value gelu(value x, source_location location = source_location::current());     // x * Phi(x), the exact form
    // Softmax along this axis; a negative axis counts from the end.
    value softmax(value x, std::int64_t axis = -1, source_location location = source_location::current());
    // A matrix of the same elements: the dimensions before `axis` become rows, the others columns.
    value flatten(value x, std::int64_t axis = 1, source_location location = source_location::current());
    // -1 stands for the length that is left, 0 for the one that x has there.
    value reshape(value x, const std::vector<std::int64_t>& shape,
                  source_location location = source_location::current());

    // What is known of a value: "f32 [rows, 10]"; "?" for a length that depends on others, and for what is known when
    // the network runs.
    std::string describe(value of, source_location location = source_location::current()) const;

    // Names an output of the network. The second form is for a value whose type is not known here (see describe).
    void output(std::string name, value of, source_location location = source_location::current());
    void output(std::string name, value of, io::dtype type, source_location location = source_location::current());

    // The network as it is now. Throws errc::invalid_argument when it has no outputs.
    model finish(source_location location = source_location::current()) const;

private:
    value add_numbers(io::dtype type, std::vector<std::size_t> shape, std::span<const std::byte> bytes,
                      const source_location& location);

    std::size_t place_of(const value& which, const source_location& location) const;
    // Nodes that belong together: all of them are added, or none.
    template <typename Function>
    value all_or_none(const Function& function);

    std::unique_ptr<detail::written_model> written_;
};

}  // namespace sluice::nn

// SPDX-License-Identifier: Apache-2.0
// node_call: what an operator's function sees of a node: inputs, attributes, and where its work is to be done.
//
// An operator is one function. It looks at the inputs' types and shapes, makes the outputs, and gives the work to
// each() (launch_each.hpp) or to an operation of the library. The same function serves all places:
//     on a device   the work is submitted to a stream, of a GPU or a CPU
//     on the host   it is done at once, on host memory: for constants, and for what is computed from shapes
//     nowhere       nothing is done: only the outputs' types and shapes are wanted; addresses are null
// So shape inference, constant folding and the reference that tests compare with are no second implementations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/base/half.hpp"
#include "sluice/io/dtype.hpp"
#include "sluice/nn/any_tensor.hpp"
#include "sluice/nn/model.hpp"

namespace sluice {
class execution_context;
}

namespace sluice::nn {
struct own_operator;
}

namespace sluice::nn::operators {

enum class place : unsigned char { host, device, nowhere };

using lengths = std::vector<std::size_t>;
using integers = std::vector<std::int64_t>;

// A check that a GPU makes of the numbers of an input (number_checks.hpp).
struct device_check {
    std::string node;
    any_tensor found;  // u64 [2]: the first number that is refused, and its bits; all bits 1 where there is none
    std::function<std::string(std::uint64_t at, std::uint64_t bits)> why;
};

// The words of all refusals of numbers of an input; `name` is the value's name in the model.
std::string text_of_wrong_value(std::size_t input, std::string_view name, std::string_view why,
                                std::string_view possible);

struct dense_layers;
struct expression_part;

// What a node_call needs to know of the run.
struct run_environment {
    const std::filesystem::path* path;  // of the model, for messages
    std::string_view command_name;      // of the commands: never freed
    execution_context* context;         // null: there is no device
    // Runs an inner graph (of If, Loop, Scan) with these inputs, here or on the host; gives its outputs.
    std::function<std::vector<any_tensor>(const graph&, std::vector<any_tensor>)> run_graph;
    // For expressions (expression.hpp): what they leave to the next node. Of each input, null where it has memory; and
    // where the output may be left, null where it must be written.
    std::span<const std::shared_ptr<const expression_part>> left_to_us = {};
    std::shared_ptr<const expression_part>* leave_to_next = nullptr;
    // Of the step that passes have made of dense layers (dense_layers.hpp).
    const dense_layers* layers = nullptr;
    // Where checks on a GPU are noted. Null: no node reads them, and none are made.
    std::vector<device_check>* checks = nullptr;
    // Of an operator of the user's own: it, and for each output what the model says of it, or null.
    const own_operator* own = nullptr;
    std::span<const value_info* const> declared = {};
};

class node_call {
public:
    node_call(const run_environment& environment, const node& what, std::size_t position, std::int64_t opset,
              place where, std::span<const any_tensor> inputs, std::span<any_tensor> outputs)
        : environment_(environment),
          node_(what),
          position_(position),
          opset_(opset),
          where_(where),
          inputs_(inputs),
          outputs_(outputs) {}

    const node& what() const noexcept { return node_; }
    std::int64_t opset() const noexcept { return opset_; }
    place where() const noexcept { return where_; }
    const run_environment& environment() const noexcept { return environment_; }
    execution_context& context() const noexcept { return *environment_.context; }  // on a device
    std::string_view name() const noexcept { return environment_.command_name; }
    std::string label() const;  // for messages

    // --- inputs ---
    std::size_t input_count() const noexcept { return inputs_.size(); }  // with those in between that are left out
    bool has_input(std::size_t i) const noexcept { return i < inputs_.size() && inputs_[i]; }
    const any_tensor& input(std::size_t i) const { return inputs_[i]; }
    // The elements of an input that the operator's table says must be known on the host, as 64-bit integers. Any
    // integer type. Empty for one that is left out.
    integers host_integers(std::size_t i) const;
    // The same for one number: of any type, as a double.
    double host_number(std::size_t i) const;

    // An input that another expression has left to this node.
    std::shared_ptr<const expression_part> left_to_us(std::size_t i) const {
        return i < environment_.left_to_us.size() ? environment_.left_to_us[i] : nullptr;
    }
    bool may_leave_to_next() const noexcept { return environment_.leave_to_next != nullptr; }
    void leave_to_next(std::shared_ptr<const expression_part> part) const {
        *environment_.leave_to_next = std::move(part);
    }

    // --- attributes ---
    bool has(std::string_view attribute) const { return node_.attributes.contains(attribute); }
    std::int64_t integer(std::string_view attribute, std::int64_t otherwise) const;
    float real(std::string_view attribute, float otherwise) const;
    std::string text(std::string_view attribute, std::string_view otherwise) const;
    integers integer_list(std::string_view attribute) const;  // empty where it is not there
    std::vector<float> real_list(std::string_view attribute) const;
    std::vector<std::string> text_list(std::string_view attribute) const;
    const constant* tensor_attribute(std::string_view attribute) const { return node_.find<constant>(attribute); }
    const graph* graph_attribute(std::string_view attribute) const;

    // An axis of a tensor of that many dimensions, counted from the end if negative. Refuses others; one past the last
    // is possible if `may_be_end`. `from`: the input that the value comes from, if it is no attribute.
    std::size_t axis(std::int64_t value, std::size_t rank, bool may_be_end = false,
                     std::optional<std::size_t> from = {}) const;
    // Such axes, in order, each once.
    std::vector<std::size_t> axes(const integers& values, std::size_t rank, std::optional<std::size_t> from = {}) const;
    // The input that numbers come from which older versions of the operator have as an attribute.
    std::optional<std::size_t> from_input(std::size_t i) const {
        return has_input(i) ? std::optional(i) : std::nullopt;
    }
    // refuse_value of that input, or refuse where the number comes from an attribute.
    [[noreturn]] void refuse_number(std::optional<std::size_t> from, std::string_view why) const;

    // --- outputs ---
    std::size_t output_count() const noexcept { return outputs_.size(); }
    bool wants_output(std::size_t i) const noexcept { return i < outputs_.size() && !node_.outputs[i].empty(); }
    const any_tensor& output(std::size_t i) const { return outputs_[i]; }
    // New memory at the place of the call.
    any_tensor make(io::dtype type, lengths shape) const;
    // The same as the output i; returns it. An output that is not wanted is made all the same.
    const any_tensor& make_output(std::size_t i, io::dtype type, lengths shape);
    // An output that exists: an input in another shape, say.
    void set_output(std::size_t i, any_tensor value);

    // --- addresses, at the place of the call; null nowhere ---
    template <typename T>
    const T* read(const any_tensor& from) const {
        return static_cast<const T*>(address(from));
    }
    template <typename T>
    T* write(const any_tensor& to) const {
        return static_cast<T*>(address(to));
    }
    // Copies all bytes: from and to have as many. At the place of the call.
    void copy(const any_tensor& from, const any_tensor& to) const;

    // --- refusals: error with the file and the node ---
    [[noreturn]] void refuse(std::string_view why) const;              // errc::bad_file: the model is wrong
    [[noreturn]] void refuse_shapes(std::string_view why) const;       // errc::shape_mismatch
    [[noreturn]] void refuse_unsupported(std::string_view why) const;  // errc::unsupported: Sluice cannot do this
    // errc::out_of_range: numbers of an input are none that the operator can take. The one refusal of such numbers,
    // whether the model or the caller gives them. `why` has the number; `possible` says what is, and may be empty.
    [[noreturn]] void refuse_value(std::size_t input, std::string_view why, std::string_view possible = {}) const;
    // Unsupported, with the input's type.
    [[noreturn]] void refuse_type(const any_tensor& of) const;

private:
    void* address(const any_tensor& of) const;

    const run_environment& environment_;
    const node& node_;
    std::size_t position_;
    std::int64_t opset_;
    place where_;
    std::span<const any_tensor> inputs_;
    std::span<any_tensor> outputs_;
};

// --- types ---

// Calls function.template operator()<T>() with the C++ type of the elements; bool is std::uint8_t.
template <typename Function>
void with_type(io::dtype type, const Function& function) {
    using enum io::dtype;
    switch (type) {
        case f16: return function.template operator()<half>();
        case bf16: return function.template operator()<bfloat16>();
        case f32: return function.template operator()<float>();
        case f64: return function.template operator()<double>();
        case i8: return function.template operator()<std::int8_t>();
        case u8: return function.template operator()<std::uint8_t>();
        case i16: return function.template operator()<std::int16_t>();
        case u16: return function.template operator()<std::uint16_t>();
        case i32: return function.template operator()<std::int32_t>();
        case u32: return function.template operator()<std::uint32_t>();
        case i64: return function.template operator()<std::int64_t>();
        case u64: return function.template operator()<std::uint64_t>();
        case boolean: return function.template operator()<std::uint8_t>();
    }
}
// The same for what only moves elements: an unsigned type of their size.
template <typename Function>
void with_word(io::dtype type, const Function& function) {
    switch (io::size_of(type)) {
        case 1: return function.template operator()<std::uint8_t>();
        case 2: return function.template operator()<std::uint16_t>();
        case 4: return function.template operator()<std::uint32_t>();
        default: return function.template operator()<std::uint64_t>();
    }
}
// The same for f16, bf16, f32 and f64. Refuses the input for other types.
template <typename Function>
void with_float(const node_call& in, const any_tensor& of, const Function& function) {
    using enum io::dtype;
    switch (of.type()) {
        case f16: return function.template operator()<half>();
        case bf16: return function.template operator()<bfloat16>();
        case f32: return function.template operator()<float>();
        case f64: return function.template operator()<double>();
        default: in.refuse_type(of);
    }
}
constexpr bool is_float(io::dtype type) {
    return type == io::dtype::f16 || type == io::dtype::bf16 || type == io::dtype::f32 || type == io::dtype::f64;
}

// The type in which sums and functions of T are computed: float for 16-bit floating point, T itself for others.
namespace detail {
template <typename T>
struct computed_in {
    using type = T;
};
template <>
struct computed_in<half> {
    using type = float;
};
template <>
struct computed_in<bfloat16> {
    using type = float;
};
}  // namespace detail
template <typename T>
using computed = typename detail::computed_in<T>::type;

// --- shapes ---

std::size_t product_of(std::span<const std::size_t> shape);
// The elements between one index and the next of each dimension, row-major.
lengths strides_of(std::span<const std::size_t> shape);
// The shape that both shapes are broadcast to. Refuses shapes that do not fit.
lengths broadcast(const node_call& in, std::span<const std::size_t> a, std::span<const std::size_t> b);

}  // namespace sluice::nn::operators

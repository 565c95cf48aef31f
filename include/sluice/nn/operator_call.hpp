// SPDX-License-Identifier: Apache-2.0
// operator_call: what the function of an own_operator sees of a node: inputs and attributes; and where its work goes.
//
//     struct swish {
//         SLUICE_KERNEL void operator()(index_1d at, float beta, view<const float> x, disjoint_view<float> y) const {
//             const float number = x[at.value()];
//             if (float* const element = y.at(at)) *element = number / (1 + std::exp(-beta * number));
//         }
//     };
//     void run_swish(nn::operator_call& node) {
//         const nn::any_tensor& x = node.input(0);
//         const nn::new_tensor y = node.make_output(0, x.type(), x.shape());
//         node.launch(swish{}, each_of(y), node.attribute("beta", 1.f), x, y);
//     }
//
// The function is called where the outputs are needed. On a device, a GPU or a CPU, launch and submit give commands to
// a stream. On the host, where constants and the numbers of shapes are computed, launch runs the kernel at once. Where
// only types and shapes are wanted, nothing runs. The function does the same everywhere; it does not ask where it is.
//
// Errors: what the function refuses, and what it does wrong, becomes a file_error with the model's path, the node and
// the code of the error that it threw, which is nested in it (std::rethrow_if_nested); errc::bad_file for exceptions
// that are no sluice::error. Failures of devices and of memory stay as they are.
//
// Thread safety: none. It belongs to the call.
//
// All members take constant time, but for these: a search among attributes is linear in their number, host_integers in
// the number of elements; what returns a vector or a text copies it; make_output and make allocate the tensor, and
// launch and submit give a command to a stream or run it.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "sluice/base/error.hpp"
#include "sluice/nn/any_tensor.hpp"
#include "sluice/nn/detail/placed_tensor.hpp"
#include "sluice/nn/model.hpp"
#include "sluice/op/operation.hpp"
#include "sluice/runtime/launch.hpp"

namespace sluice {
class execution_context;
}

namespace sluice::nn {

struct own_operator;
namespace operators {
class node_call;
}

// The types of attributes that a function can ask for.
template <typename T>
concept attribute_type = std::same_as<T, std::int64_t> || std::same_as<T, float> || std::same_as<T, std::string> ||
                         std::same_as<T, constant> || std::same_as<T, std::vector<std::int64_t>> ||
                         std::same_as<T, std::vector<float>> || std::same_as<T, std::vector<std::string>>;

namespace detail {
template <typename Output>
struct element_of_output {};
template <typename T>
struct element_of_output<tensor<T>> {
    using type = T;
};
template <typename T>
struct element_of_output<shared_tensor<T>> {
    using type = T;
};
template <typename Op>
using element_given_by = typename element_of_output<output_of<Op>>::type;
}  // namespace detail

// An operation that gives one tensor.
template <typename Op>
concept operation_of_tensor = operation<Op> && can_submit<Op> && requires { typename detail::element_given_by<Op>; };

// A tensor that the call has made. Kernels write it; once it is written they read it as well.
class new_tensor {
public:
    const any_tensor& value() const noexcept { return value_; }     // the tensor in the form that inputs have
    operator const any_tensor&() const noexcept { return value_; }  // the same, without a call
    io::dtype type() const noexcept { return value_.type(); }       // the type of the elements
    // The lengths of the dimensions, row-major.
    const std::vector<std::size_t>& shape() const noexcept { return value_.shape(); }
    std::size_t elements() const noexcept { return value_.elements(); }  // the number of elements

private:
    friend class operator_call;
    explicit new_tensor(any_tensor value) : value_(std::move(value)) {}

    any_tensor value_;
};

// A new tensor in tiles, for kernels that write several elements for each index: {1, columns} gives one row to each.
// A tensor of any number of dimensions is a matrix here: the last one has the columns, all others have the rows. Throws
// errc::shape_mismatch for a tile without elements.
struct tensor_tiles {
    new_tensor whole;           // the tensor
    std::size_t rows, columns;  // of a tile
};
// The tensor in tiles of this many rows and columns.
tensor_tiles in_tiles(const new_tensor& of, std::size_t rows, std::size_t columns);

// What a launch runs over: each element of a tensor, as a flat range or, for kernels with an index_2d, as the matrix
// that in_tiles describes; each tile. Counts and matrices of other sizes: each_of(shape{rows, columns}).
launch_range each_of(const any_tensor& elements, source_location location = source_location::current());
launch_range each_of(const tensor_tiles& tiles, source_location location = source_location::current());

class operator_call {
public:
    // Made by the library for each call of the function; both outlive it.
    operator_call(operators::node_call& node, const own_operator& what) : node_(node), what_(what) {}
    operator_call(const operator_call&) = delete;  // belongs to the call of the function
    operator_call& operator=(const operator_call&) = delete;

    std::string label() const;     // for messages: node "act1" (Swish)
    std::int64_t version() const;  // of the domain's operator set, which the model names

    // --- inputs ---
    std::size_t input_count() const noexcept;
    // Whether the node has this input: those after least_inputs may be left out.
    bool has_input(std::size_t i) const noexcept;
    // Refuses the node when the input is left out.
    const any_tensor& input(std::size_t i) const;
    // The elements of an input of host_inputs that holds integers of any type.
    std::vector<std::int64_t> host_integers(std::size_t i) const;

    // --- attributes ---
    // own_operator::attributes has to name them. Refuses the node when it has the attribute with another type.
    bool has_attribute(std::string_view name) const;
    template <attribute_type T>
    T attribute(std::string_view name, T otherwise) const {
        const T* const found = find_attribute<T>(name);
        return found != nullptr ? *found : std::move(otherwise);
    }
    // Refuses the node when it does not have the attribute.
    template <attribute_type T>
    T attribute(std::string_view name) const {
        const T* const found = find_attribute<T>(name);
        if (found == nullptr) refuse_missing(name);
        return *found;
    }

    // An axis of a tensor of that many dimensions; counted from the end if negative. Refuses others.
    std::size_t axis(std::int64_t value, std::size_t rank) const;

    // --- outputs ---
    // Whether the node gives this output a name. One that it does not may be made all the same.
    bool wants_output(std::size_t i) const noexcept;
    // The output i; each is made or set once. Its elements have no values yet.
    new_tensor make_output(std::size_t i, io::dtype type, std::vector<std::size_t> shape);
    // An output that exists: an input as it is, or in another shape (any_tensor::with_shape).
    void set_output(std::size_t i, any_tensor value);
    // Memory for numbers in between. It may be dropped at any time.
    new_tensor make(io::dtype type, std::vector<std::size_t> shape) const;

    // --- work ---
    // Runs a kernel as sluice::launch does (runtime/launch.hpp), of which each parameter takes
    //     view<const T>, matrix_view<const T>              any_tensor or new_tensor of T: read
    //     disjoint_view<T>, disjoint_matrix<T>             new_tensor: written
    //     disjoint_tiles<T>                                tensor_tiles: written
    //     anything trivially copyable                      a value that converts to it
    // Elements of bool are std::uint8_t. Refuses the node (errc::unsupported) when a tensor is of another type than T:
    // see with_type. Files that launch are compiled by sluice_kernel_sources.
    template <typename Abi = detail::launch_abi, typename Kernel, any_launch_range Range, typename... Arguments>
    void launch(const Kernel& kernel, const Range& range, const Arguments&... arguments) const {
        static_assert(std::is_same_v<Abi, detail::launch_abi>);
        static_assert(std::is_trivially_copyable_v<Kernel>,
                      "launch: a kernel object is copied to the device byte by byte");
        static_assert(sluice::detail::has_kernel_signature<Kernel>,
                      "launch: a kernel is a class with one `void operator()(index, parameters...) const`");
        if constexpr (sluice::detail::has_kernel_signature<Kernel>)
            detail::launch_placed(place(), kernel, range, placed(arguments)...);
    }

    // The output i is the tensor of an operation of Sluice, such as linear(...) or softmax(...). `make`, called on a
    // device only, returns the operation; it reads inputs as any_tensor::on_device<T>(). The operation has to give this
    // shape (of more than 4 dimensions: as many elements). Such a node is not computed beforehand, and the node is
    // refused (errc::unsupported) where shapes depend on its numbers: these are needed without a device.
    //     node.submit(0, {rows, columns}, [&] { return linear(x.on_device<float>(), weight, bias); });
    template <typename Make>
    requires operation_of_tensor<std::invoke_result_t<const Make&>>
    void submit(std::size_t i, std::vector<std::size_t> shape, const Make& make) {
        using element = detail::element_given_by<std::invoke_result_t<const Make&>>;
        if (!is_to_submit(i, io::dtype_of<element>, shape)) return;
        auto operation = make();
        set_submitted(i, shape, any_tensor(std::move(operation).submit(context())));
    }

    // Calls function.template operator()<T>() with the C++ type of the tensor's elements, which has to be one of Ts;
    // refuses the node (errc::unsupported) otherwise. For kernels that are templates:
    //     node.with_type<float, half>(x, [&]<typename T>() { node.launch(swish<T>{}, each_of(y), x, y); });
    template <typename... Ts, typename Function>
    void with_type(const any_tensor& of, const Function& function) const {
        const auto call_if = [&]<typename T>() {
            if (of.type() != io::dtype_of<T>) return false;
            function.template operator()<T>();
            return true;
        };
        if (!(call_if.template operator()<Ts>() || ...)) refuse_type(of, {io::dtype_of<Ts>...});
    }

    // --- refusals ---
    // Throws file_error with the model's path, the node and this reason.
    [[noreturn]] void refuse(std::string_view why, errc code = errc::bad_file) const;

private:
    template <typename T>
    const T* find_attribute(std::string_view name) const {
        const nn::attribute* const found = find(name);
        if (found == nullptr) return nullptr;
        const T* const value = std::get_if<T>(found);
        if (value == nullptr) refuse_attribute(name);
        return value;
    }
    const nn::attribute* find(std::string_view name) const;
    [[noreturn]] void refuse_attribute(std::string_view name) const;
    [[noreturn]] void refuse_missing(std::string_view name) const;
    [[noreturn]] void refuse_type(const any_tensor& of, std::initializer_list<io::dtype> accepted) const;

    void require_new_output(std::size_t i);
    bool is_to_submit(std::size_t i, io::dtype type, const std::vector<std::size_t>& shape);
    void set_submitted(std::size_t i, const std::vector<std::size_t>& shape, any_tensor made);
    execution_context& context() const;

    detail::launch_place place() const;
    detail::placed_tensor placed(const any_tensor& of) const;
    detail::placed_new_tensor placed(const new_tensor& of) const { return {placed(of.value())}; }
    detail::placed_tiles placed(const tensor_tiles& of) const { return {placed(of.whole), of.rows, of.columns}; }
    template <typename Value>
    static const Value& placed(const Value& value) {
        return value;
    }

    operators::node_call& node_;
    const own_operator& what_;
    std::vector<bool> is_made_ = {};  // outputs
};

}  // namespace sluice::nn

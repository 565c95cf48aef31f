// SPDX-License-Identifier: Apache-2.0
// The inputs of a compiled graph: what its function receives while it is recorded, and what a launch may pass.
//
//     input                            the function receives                            a launch passes
//     device_input<float>({64, 784})   a tensor<float>, which it owns                   a tensor<float>
//     shared_input<float>({64, 784})   a shared_tensor<float>, read-only                a shared_tensor or a tensor
//     host_input<float>({64, 784})     a tensor<float>, uploaded by the graph           a vector, a span, or a
//                                                                                       host_buffer, also a shared one
//     host_input_in_pieces<float>({64, 784}, {48, 16})                                  the same
//                                  a std::vector<tensor<float>>: the first 48 rows and the other 16
//     argument<int>(7)                 an int                                           an int; 7 until one is passed
//
// Tensors are bound by their address, without a copy, unless a GPU's library call uses the input: its addresses cannot
// be set later, so the graph first copies the input. Host data is read when the launch is submitted; a host_buffer is
// read by the device.
//
// All members take constant time, but for those of host_input_in_pieces, which are linear in the number of pieces, and
// for the copies of an argument's value.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "sluice/base/error.hpp"
#include "sluice/graph/compiled_graph.hpp"
#include "sluice/op/shared.hpp"
#include "sluice/runtime/buffer.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice {

namespace detail {
inline void require_input_shape(const shape& expected, const shape& given) {
    if (given == expected) return;
    throw error(errc::shape_mismatch,
                "the graph was compiled for an input of shape " + to_string(expected) + ", not " + to_string(given),
                {"graph"});
}
inline void require_input_size(const shape& expected, std::size_t given) {
    if (given == expected.size()) return;
    throw error(errc::shape_mismatch,
                std::to_string(given) + " values do not match an input of shape " + to_string(expected), {"graph"});
}

void require_pieces(const shape& whole, std::span<const std::size_t> rows);

// A tensor over memory that the graph also refers to.
template <typename T>
tensor<T> tensor_over(storage_ref memory, const shape& shape) {
    return tensor<T>(buffer<T>(std::move(memory), shape.size()), shape);
}
}  // namespace detail

// A tensor on the device, which the function owns.
template <typename T>
class device_input {
public:
    using given = tensor<T>;                 // to the function
    static constexpr bool is_memory = true;  // a launch binds memory

    explicit device_input(const sluice::shape& shape) : shape_(shape) {}  // the shape of the tensor

    const sluice::shape& shape() const noexcept { return shape_; }  // the shape of the tensor

    // The value that a launch passes, kept until the launch is submitted. The constructors throw errc::shape_mismatch.
    class launch_value {
    public:
        // Takes over a tensor on the device, of the input's shape.
        launch_value(const device_input& to, tensor<T> from) : from_(std::move(from)) {
            detail::require_input_shape(to.shape_, from_.shape());
        }
        // For the graph: the memory to bind.
        detail::launch_input feed() const noexcept { return {storage_ref(from_.memory()), nullptr}; }

    private:
        tensor<T> from_;
    };

    // For the graph: the bytes of the input.
    detail::graph_input describe() const { return {shape_.size() * sizeof(T), false}; }
    // For the graph: what the function receives over this memory.
    given make(std::span<const storage_ref> memory) const { return detail::tensor_over<T>(memory[0], shape_); }

private:
    sluice::shape shape_;
};

// A tensor on the device that the function only reads.
template <typename T>
class shared_input {
public:
    using given = shared_tensor<T>;          // to the function
    static constexpr bool is_memory = true;  // a launch binds memory

    explicit shared_input(const shape& shape) : shape_(shape) {}  // the shape of the tensor

    // The value that a launch passes, kept until the launch is submitted. The constructors throw errc::shape_mismatch.
    class launch_value {
    public:
        // A tensor of the input's shape; the launch only reads it.
        launch_value(const shared_input& to, shared_tensor<T> from) : from_(std::move(from)) {
            detail::require_input_shape(to.shape_, from_->shape());
        }
        launch_value(const shared_input& to, tensor<T> from) : launch_value(to, shared_tensor<T>(std::move(from))) {}
        // For the graph: the memory to bind.
        detail::launch_input feed() const noexcept { return {storage_ref(from_->memory()), nullptr}; }

    private:
        shared_tensor<T> from_;
    };

    // For the graph: the bytes of the input.
    detail::graph_input describe() const { return {shape_.size() * sizeof(T), false}; }
    // For the graph: what the function receives over this memory.
    given make(std::span<const storage_ref> memory) const { return given(detail::tensor_over<T>(memory[0], shape_)); }

private:
    shape shape_;
};

// Values in host memory, which the graph uploads.
template <typename T>
class host_input {
public:
    using given = tensor<T>;                 // to the function
    static constexpr bool is_memory = true;  // a launch binds memory

    explicit host_input(const shape& shape) : shape_(shape) {}  // the shape of the tensor

    // The value that a launch passes, kept until the launch is submitted. The constructors throw errc::shape_mismatch
    // for another number of elements.
    class launch_value {
    public:
        launch_value(const host_input& to, std::vector<T> from) : values_(std::move(from)), span_(values_) {
            detail::require_input_size(to.shape_, span_.size());
        }
        // The memory must stay valid until the launch has been submitted.
        launch_value(const host_input& to, std::span<const T> from) : span_(from) {
            detail::require_input_size(to.shape_, span_.size());
        }
        launch_value(const host_input& to, host_buffer<T> from) : memory_(storage_ref(from.memory())) {
            detail::require_input_size(to.shape_, from.size());
        }
        // Can be passed to many launches.
        launch_value(const host_input& to, const shared<host_buffer<T>>& from) : memory_(storage_ref(from->memory())) {
            detail::require_input_size(to.shape_, from->size());
        }
        launch_value(launch_value&& other) noexcept
            : values_(std::move(other.values_)), span_(other.span_), memory_(std::move(other.memory_)) {}

        // For the graph: the memory of a host_buffer, or the address of the values.
        detail::launch_input feed() const noexcept {
            if (memory_) return {memory_, nullptr};
            return {{}, span_.data()};
        }

    private:
        std::vector<T> values_;  // moving it does not move the span's elements
        std::span<const T> span_;
        storage_ref memory_;
    };

    // For the graph: the bytes of the input.
    detail::graph_input describe() const { return {shape_.size() * sizeof(T), true}; }
    // For the graph: what the function receives over this memory.
    given make(std::span<const storage_ref> memory) const { return detail::tensor_over<T>(memory[0], shape_); }

private:
    shape shape_;
};

// Host data that the graph uploads in pieces of the given numbers of rows, one after the other in that order, so that
// work on one piece runs while the next one is copied. Throws errc::invalid_argument for a piece without rows, and
// errc::shape_mismatch when the pieces do not add up to all rows.
template <typename T>
class host_input_in_pieces {
public:
    using given = std::vector<tensor<T>>;    // to the function
    static constexpr bool is_memory = true;  // a launch binds memory

    // The shape of all rows, and the numbers of rows of the pieces, in order.
    host_input_in_pieces(const shape& shape, std::vector<std::size_t> rows)
        : whole_(shape), shape_(shape), rows_(std::move(rows)) {
        detail::require_pieces(shape_, rows_);
    }

    // The value that a launch passes: as for host_input, all rows together.
    class launch_value : public host_input<T>::launch_value {
    public:
        // From what host_input::launch_value takes. Throws errc::shape_mismatch for another number of elements.
        template <typename Values>
        launch_value(const host_input_in_pieces& to, Values&& from)
            : host_input<T>::launch_value(to.whole_, std::forward<Values>(from)) {}
    };

    // For the graph: the bytes of the input and of each piece.
    detail::graph_input describe() const {
        detail::graph_input made = whole_.describe();
        for (const std::size_t each : rows_) made.pieces.push_back(each * shape_.columns() * sizeof(T));
        return made;
    }
    // For the graph: what the function receives, one tensor over each piece's memory.
    given make(std::span<const storage_ref> memory) const {
        given made;
        for (std::size_t i = 0; i < rows_.size(); ++i)
            made.push_back(detail::tensor_over<T>(memory[i], {rows_[i], shape_.columns()}));
        return made;
    }

private:
    host_input<T> whole_;
    shape shape_;
    std::vector<std::size_t> rows_;
};

// A value that is passed to the function unchanged. When a launch passes a value that differs from the previous one,
// the operation is recorded again and the nodes that differ are set: cheap, but not free.
template <typename T>
class argument {
    static_assert(std::equality_comparable<T> && std::copy_constructible<T>,
                  "argument: the type must be copyable and equality-comparable");

public:
    using given = T;                          // to the function
    static constexpr bool is_memory = false;  // a value, no memory

    explicit argument(T initial) : initial_(std::move(initial)) {}  // the value of launches before one passes another

    // The value that a launch passes.
    class launch_value {
    public:
        launch_value(const argument&, T value) : value_(std::move(value)) {}  // takes the value over
        const T& value() const noexcept { return value_; }                    // the value, for the graph

    private:
        T value_;
    };

    const T& initial() const noexcept { return initial_; }  // the value that the constructor was given

private:
    T initial_;
};

namespace detail {
template <typename T>
inline constexpr bool is_graph_input = false;
template <typename T>
inline constexpr bool is_graph_input<device_input<T>> = true;
template <typename T>
inline constexpr bool is_graph_input<shared_input<T>> = true;
template <typename T>
inline constexpr bool is_graph_input<host_input<T>> = true;
template <typename T>
inline constexpr bool is_graph_input<host_input_in_pieces<T>> = true;
template <typename T>
inline constexpr bool is_graph_input<argument<T>> = true;
}  // namespace detail

}  // namespace sluice

// Elementwise operations on f32 tensors, in place: relu, gelu, sigmoid, tanh; and full, which makes a tensor.
// NaN stays NaN.
#pragma once

#include <concepts>

#include "sluice/kernels/activation.hpp"
#include "sluice/op/operation.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/source_location.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice {

// The plain form: one command on a stream. Any activation; `none` submits nothing. Does not block.
void activate(stream& on, tensor<float>& x, activation what, source_location where = source_location::current());

class activate_operation : public operation_base<activate_operation> {
public:
    using output = tensor<float>;

    activate_operation(tensor<float> x, activation what, source_location where)
        : x_(std::move(x)), what_(what), where_(where) {}

    output submit(execution_context& context) && {
        sluice::activate(context.stream(), x_, what_, where_);
        return std::move(x_);
    }
    work_estimate estimate() const { return {.commands = 1}; }

private:
    tensor<float> x_;
    activation what_;
    source_location where_;
};

// The operation: takes the tensor over and gives it back.
inline auto activate(tensor<float> x, activation what, source_location where = source_location::current()) {
    return activate_operation(std::move(x), what, where);
}
inline auto relu(tensor<float> x, source_location where = source_location::current()) {
    return activate_operation(std::move(x), activation::relu, where);
}
inline auto gelu(tensor<float> x, source_location where = source_location::current()) {
    return activate_operation(std::move(x), activation::gelu, where);
}
inline auto sigmoid(tensor<float> x, source_location where = source_location::current()) {
    return activate_operation(std::move(x), activation::sigmoid, where);
}
inline auto tanh(tensor<float> x, source_location where = source_location::current()) {
    return activate_operation(std::move(x), activation::tanh, where);
}

// The plain form of full: every element of x, of 1, 2, 4 or 8 bytes, becomes the one at `value`.
void fill_elements(stream& on, storage& x, std::size_t count, const void* value, std::size_t element_bytes,
                   source_location where = source_location::current());

template <typename T>
class full_operation : public operation_base<full_operation<T>> {
    static_assert(sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8);

public:
    using output = tensor<T>;

    full_operation(const shape& shape, T value, source_location where) : shape_(shape), value_(value), where_(where) {}

    output submit(execution_context& context) && {
        tensor<T> made(context.stream(), shape_, {"full", {}, where_});
        fill_elements(context.stream(), *made.memory(), made.size(), &value_, sizeof(T), where_);
        return made;
    }
    work_estimate estimate() const { return {1, shape_.size() * sizeof(T)}; }

private:
    shape shape_;
    T value_;
    source_location where_;
};

// A new device tensor, every element `value`.
template <typename T>
auto full(const shape& shape, T value, source_location where = source_location::current()) {
    return full_operation<T>(shape, value, where);
}

}  // namespace sluice

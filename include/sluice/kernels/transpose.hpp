// SPDX-License-Identifier: Apache-2.0
// transpose: the last two dimensions change places; those before them count matrices. Elements of 1, 2, 4 or 8 bytes.
// On a GPU through tiles in shared memory, so that both reading and writing go along rows.
//
//     transpose(x)                 // an operation, for a tensor or a shared one
//     op.and_then(transpose())     // the same for the output of another operation
//
// Errors, before anything is submitted: errc::shape_mismatch for fewer than two dimensions or an output of another
// shape; errc::invalid_argument when the output is the input. No elements: nothing is submitted.
#pragma once

#include <cstddef>

#include "sluice/base/source_location.hpp"
#include "sluice/kernels/detail/operand.hpp"
#include "sluice/op/operation.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice {

// x's shape with the last two dimensions exchanged. Throws errc::shape_mismatch for fewer than two. Costs
// O(dimensions).
shape transposed(const shape& x, source_location location = source_location::current());

// The plain form, for elements of any type of this size: one command on a stream. Does not block. `out` has the
// transposed shape of x. Costs one command.
void transpose_elements(stream on, storage* x, const shape& of, storage* out, std::size_t element_bytes,
                        source_location location = source_location::current());

template <typename T>
void transpose(stream on, const tensor<T>& x, tensor<T>& out, source_location location = source_location::current()) {
    static_assert(sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8);
    if (out.shape() != transposed(x.shape(), location)) {
        throw error(errc::shape_mismatch, to_string(x.shape()) + " into " + to_string(out.shape()),
                    {"transpose", on.owner().name(), location});
    }
    transpose_elements(on, x.memory(), x.shape(), out.memory(), sizeof(T), location);
}

template <detail::operand X>
class transpose_operation : public operation_base<transpose_operation<X>> {
public:
    using output = tensor<detail::element_of<X>>;

    transpose_operation(X x, source_location location) : x_(std::move(x)), location_(location) {}

    output submit(execution_context& context) && {
        output out(context.stream(), transposed(detail::read(x_).shape(), location_), {"transpose", {}, location_});
        transpose(context.stream(), detail::read(x_), out, location_);
        return out;
    }
    work_estimate estimate() const { return {.commands = 1}; }

private:
    X x_;
    source_location location_;
};

// The operation: its output is a new tensor; x, a tensor or a shared one, is released after it. Submitting it costs a
// new tensor and one command.
template <detail::operand X>
auto transpose(X x, source_location location = source_location::current()) {
    return transpose_operation<X>(std::move(x), location);
}
// The function of the tensor, for and_then. It costs what the operation costs.
inline auto transpose(source_location location = source_location::current()) {
    return [=]<detail::operand X>(X x) { return transpose_operation<X>(std::move(x), location); };
}

}  // namespace sluice

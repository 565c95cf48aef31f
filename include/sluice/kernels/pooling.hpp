// SPDX-License-Identifier: Apache-2.0
// max_pooling and average_pooling: one number for each window of an image, in f32; averages by cuDNN on a GPU that has
// it, else by a kernel of our own. x is [images, channels, height, width] (NCHW); each channel is pooled by itself.
//
//     max_pooling(x, {.window = {3, 3}})               // an operation, for a tensor or a shared one
//     op.and_then(max_pooling({.window = {3, 3}}))     // the same for the output of another operation
//
// The padding is no part of a maximum; of an average only on request. A window with NaN makes NaN. Of zeros of both
// signs +0 is the maximum.
//
// Errors, before anything is submitted: errc::shape_mismatch unless x is an image that a window fits into and the
// output has the shape of the result; errc::invalid_argument for a window or stride of 0, one that is too large (see
// largest_window_step), a padding as large as the window (some windows would be empty), and an output that is the
// input. No outputs: nothing is submitted.
#pragma once

#include <optional>

#include "sluice/base/source_location.hpp"
#include "sluice/kernels/detail/operand.hpp"
#include "sluice/kernels/detail/window.hpp"
#include "sluice/op/operation.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice {

// How the window moves over the image.
struct pooling_options {
    size_2d window = {2, 2};                       // its height and width
    std::optional<size_2d> stride = std::nullopt;  // the window's size, if not given
    size_2d padding = {0, 0};                      // on each side
    bool counts_padding = false;                   // an average divides by the whole window, also at the edges
    bool use_library = true;                       // false: our own kernel even where cuDNN is there
};

// The shape of the result. Throws as above. Costs O(1).
shape pooled(const shape& x, const pooling_options& options = {},
             source_location location = source_location::current());

// The plain forms: one command on a stream. `out` has the shape that `pooled` returns. They do not block. Each costs
// one command.
void max_pooling(stream on, const tensor<float>& x, tensor<float>& out, const pooling_options& options = {},
                 source_location location = source_location::current());
// The same for averages. The plain form costs one command, the operation also the tensor.
void average_pooling(stream on, const tensor<float>& x, tensor<float>& out, const pooling_options& options = {},
                     source_location location = source_location::current());

namespace detail {
using pooling_function = void(stream, const tensor<float>&, tensor<float>&, const pooling_options&, source_location);
}

// The operation that max_pooling and average_pooling return.
template <detail::operand_of<float> X>
class pooling_operation : public operation_base<pooling_operation<X>> {
public:
    using output = tensor<float>;

    pooling_operation(X x, detail::pooling_function* pool, const pooling_options& options, source_location location)
        : x_(std::move(x)), pool_(pool), options_(options), location_(location) {}

    output submit(execution_context& context) && {
        const tensor<float>& x = detail::read(x_);
        output out(context.stream(), pooled(x.shape(), options_, location_), {"pooling", {}, location_});
        pool_(context.stream(), x, out, options_, location_);
        return out;
    }
    work_estimate estimate() const { return {.commands = 1}; }

private:
    X x_;
    detail::pooling_function* pool_;
    pooling_options options_;
    source_location location_;
};

// The operations: their output is a new tensor; x, a tensor or a shared one, is released after it. Submitting one costs
// the tensor and one command.
template <detail::operand_of<float> X>
auto max_pooling(X x, const pooling_options& options = {}, source_location location = source_location::current()) {
    return pooling_operation<X>(std::move(x), static_cast<detail::pooling_function*>(&max_pooling), options, location);
}
template <detail::operand_of<float> X>
auto average_pooling(X x, const pooling_options& options = {}, source_location location = source_location::current()) {
    return pooling_operation<X>(std::move(x), static_cast<detail::pooling_function*>(&average_pooling), options,
                                location);
}

// Functions of the tensor, for and_then. They cost what the operations cost.
inline auto max_pooling(const pooling_options& options = {}, source_location location = source_location::current()) {
    return [=]<detail::operand_of<float> X>(X x) { return max_pooling(std::move(x), options, location); };
}
inline auto average_pooling(const pooling_options& options = {},
                            source_location location = source_location::current()) {
    return [=]<detail::operand_of<float> X>(X x) { return average_pooling(std::move(x), options, location); };
}

}  // namespace sluice

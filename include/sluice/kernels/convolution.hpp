// SPDX-License-Identifier: Apache-2.0
// convolution: 2-D, in f32, with bias and activation, by the fast library of the device: cuDNN on a GPU, oneDNN on a
// CPU; where that is not there, the windows are laid out as the columns of a matrix (im2col) and multiplied by gemm.
//
//     out[n, k, y, x] = activation(bias[k] + sum over c, r, s of
//         x[n, g * C + c, y * stride - padding + r * dilation, ...] * filter[k, c, r, s])
//
// x is [images, channels, height, width] (NCHW), the filter [filters, C = channels / groups, height, width] (KCRS); g
// is the group of filter k: the filters, as the channels, are split into `groups` equal parts in order. Pixels of the
// padding are 0. (What networks call a convolution: the filter is not mirrored, as with PyTorch's conv2d.)
//
// Arithmetic is f32 throughout (no tf32). An output is NaN or infinite only where its own window is: the forms of cuDNN
// that mix windows (Winograd, FFT) are not used. Activations are those of activation.hpp. Of images without channels an
// output is activation(bias[k]).
//
// Errors, before anything is submitted: errc::shape_mismatch when the shapes do not fit together or the window does not
// fit into the image; errc::invalid_argument for a stride, dilation or number of groups of 0, one that is too large
// (see largest_window_step), softmax, and an output that is an operand. No outputs: nothing is submitted.
#pragma once

#include <optional>

#include "sluice/base/source_location.hpp"
#include "sluice/kernels/activation.hpp"
#include "sluice/kernels/detail/operand.hpp"
#include "sluice/kernels/detail/window.hpp"
#include "sluice/op/operation.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice {

// How the window moves over the image, and what is done to the sums.
struct convolution_options {
    size_2d stride = {1, 1};              // pixels from one window to the next
    size_2d padding = {0, 0};             // on each side
    size_2d dilation = {1, 1};            // pixels from one element of the filter to the next
    std::size_t groups = 1;               // equal parts of channels and filters that do not mix
    activation after = activation::none;  // applied to each output, after the bias
    bool use_library = true;              // false: im2col and gemm even where cuDNN or oneDNN is there
};

// The shape of the result. Throws as above. Costs O(1).
shape convolved(const shape& x, const shape& filter, const convolution_options& options = {},
                source_location location = source_location::current());

// How much of its stream's workspace a convolution takes on this device, in bytes: what the library asks for, or what
// im2col and gemm need. Throws as above. Costs O(1), and a question to the library.
std::size_t convolution_workspace_bytes(device& on, const shape& x, const shape& filter,
                                        const convolution_options& options = {},
                                        source_location location = source_location::current());

// The plain form: the convolution as commands on a stream. `bias` has one element for each filter, or is null. `out`
// has the shape that `convolved` returns, and is none of the others. Does not block. Costs at most three commands by a
// library; by im2col three for each part of the images, and one for an activation other than relu.
void convolution(stream on, const tensor<float>& x, const tensor<float>& filter, const tensor<float>* bias,
                 tensor<float>& out, const convolution_options& options = {},
                 source_location location = source_location::current());

template <detail::operand_of<float> X, detail::operand_of<float> Filter>
class convolution_operation : public operation_base<convolution_operation<X, Filter>> {
public:
    using output = tensor<float>;

    convolution_operation(X x, Filter filter, std::optional<shared_tensor<float>> bias,
                          const convolution_options& options, source_location location)
        : x_(std::move(x)),
          filter_(std::move(filter)),
          bias_(std::move(bias)),
          options_(options),
          location_(location) {}

    output submit(execution_context& context) && {
        const tensor<float>& x = detail::read(x_);
        const tensor<float>& filter = detail::read(filter_);
        output out(context.stream(), convolved(x.shape(), filter.shape(), options_, location_),
                   {"convolution", {}, location_});
        convolution(context.stream(), x, filter, bias_ ? &**bias_ : nullptr, out, options_, location_);
        return out;
    }
    work_estimate estimate() const { return {.commands = 1}; }

private:
    X x_;
    Filter filter_;
    std::optional<shared_tensor<float>> bias_;
    convolution_options options_;
    source_location location_;
};

// The operation: operands are tensors or shared tensors; its output is a new tensor. Submitting it costs a new tensor,
// and what the plain form costs.
template <detail::operand_of<float> X, detail::operand_of<float> Filter>
auto convolution(X x, Filter filter, const convolution_options& options = {},
                 source_location location = source_location::current()) {
    return convolution_operation<X, Filter>(std::move(x), std::move(filter), std::nullopt, options, location);
}
template <detail::operand_of<float> X, detail::operand_of<float> Filter>
auto convolution(X x, Filter filter, shared_tensor<float> bias, const convolution_options& options = {},
                 source_location location = source_location::current()) {
    return convolution_operation<X, Filter>(std::move(x), std::move(filter), std::move(bias), options, location);
}

}  // namespace sluice

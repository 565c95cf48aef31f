// SPDX-License-Identifier: Apache-2.0
#include "nn/operators/dense_layers.hpp"

#include <span>
#include <string>

#include "nn/operators/node_call.hpp"
#include "nn/operators/table.hpp"
#include "sluice/runtime/execution_context.hpp"

namespace sluice::nn::operators {
namespace {

void run_dense_layers(node_call& in) {
    const dense_layers& layers = *in.environment().layers;
    const any_tensor& x = in.input(0);
    const std::size_t features = layers.network->in_features();
    if (x.type() != io::dtype::f32)
        in.refuse("multiplies and adds tensors of different types: " + to_string(x) + " and weights of f32");
    if (x.shape().empty() || x.shape().back() != features || (layers.takes_matrix && x.shape().size() != 2)) {
        in.refuse_shapes("multiplies " + to_string(x) + " by " + std::to_string(features) + " rows of weights" +
                         (layers.takes_matrix ? "; it has to be a matrix" : ""));
    }
    lengths made = x.shape();
    made.back() = layers.network->out_features();
    const std::size_t rows = product_of(std::span(made).first(made.size() - 1));
    const any_tensor& y = in.make_output(0, io::dtype::f32, made);
    if (rows == 0 || in.where() == place::nowhere) return;
    const tensor<float> from(buffer<float>(x.shared_memory(), x.elements()), shape{rows, features});
    tensor<float> to(buffer<float>(y.shared_memory(), y.elements()), shape{rows, made.back()});
    fused_mlp(in.context().stream(), from, *layers.network, to);
}

}  // namespace

const definition& fused_dense_layers() {
    static const definition made = {.name = "Gemm",
                                    .least_inputs = 1,
                                    .most_inputs = 1,
                                    .most_outputs = 1,
                                    .attributes = {},
                                    .run = &run_dense_layers};
    return made;
}

}  // namespace sluice::nn::operators

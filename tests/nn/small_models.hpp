// SPDX-License-Identifier: Apache-2.0
// Models that tests write down.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sluice/graph/executable_graph.hpp"
#include "sluice/nn/model.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/op/and_then.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice::nn::test_support {

inline value_info f32(std::string name, std::vector<dimension> shape) {
    return {std::move(name), io::dtype::f32, shape};
}
inline dimension named(std::string name) { return {.length = {}, .name = std::move(name)}; }
inline dimension of(std::size_t length) { return {.length = length, .name = {}}; }

template <typename T>
constant tensor_of(const std::vector<T>& values, std::vector<std::size_t> shape) {
    return {
        io::dtype_of<T>, std::move(shape),
        std::make_shared<const std::string>(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T))};
}

inline node make_node(std::string op, std::vector<std::string> inputs, std::vector<std::string> outputs) {
    node made;
    made.op = std::move(op);
    made.inputs = std::move(inputs);
    made.outputs = std::move(outputs);
    return made;
}

// The commands of the graph that computes the network's first output from this input and downloads it.
template <typename T>
std::size_t commands_of(const network& made, scheduling_policy& pool, const shape& input) {
    const auto fast = compile(
        pool,
        [&](tensor<T> x) {
            return made.forward({any_tensor(std::move(x))}).and_then([](std::vector<any_tensor> values) {
                return download(values.at(0).on_device<T>());
            });
        },
        device_input<T>(input));
    return fast(sync(zeros<T>(input), pool)).estimate().commands;
}

}  // namespace sluice::nn::test_support

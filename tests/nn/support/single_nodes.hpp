// SPDX-License-Identifier: Apache-2.0
// Networks of a single node: what it gives, and tables of nodes that their operators refuse.
#pragma once

#include <gmock/gmock.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nn/small_models.hpp"
#include "sluice/nn/any_tensor.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::nn::test_support {

// Ones.
inline any_tensor ones(std::vector<std::size_t> shape) {
    std::size_t elements = 1;
    for (const std::size_t each : shape) elements *= each;
    return any_tensor(std::vector<float>(elements, 1.0f), std::move(shape));
}
template <typename T = std::int64_t>
any_tensor list(const std::vector<T>& values) {
    return any_tensor(values, {values.size()});
}
template <typename T>
any_tensor number(T value) {
    return any_tensor(std::vector<T>{value}, {});
}
inline any_tensor booleans(std::vector<std::size_t> shape) {
    std::size_t elements = 1;
    for (const std::size_t each : shape) elements *= each;
    return any_tensor(
        constant{io::dtype::boolean, std::move(shape), std::make_shared<const std::string>(elements, '\1')});
}
inline attribute whole(std::int64_t value) { return value; }
inline attribute wholes(std::vector<std::int64_t> values) { return values; }
inline attribute reals(std::vector<float> values) { return values; }
inline attribute text(std::string value) { return value; }
inline attribute texts(std::vector<std::string> values) { return values; }

using attributes = std::map<std::string, attribute, std::less<>>;

struct single_node {
    std::string op;
    std::vector<any_tensor> inputs;  // an empty one is left out
    attributes with = {};
    std::string domain = {};
    std::int64_t opset = 17;
    std::size_t outputs = 1;
};

struct bad_node {
    std::string op;
    std::vector<any_tensor> inputs;  // an empty one is left out
    attributes with;
    errc code;
    std::string why;  // a part of the message
    std::int64_t opset = 17;
    std::string domain = {};
    std::size_t outputs = 1;
};

// A network of this node alone, whose inputs are the node's.
inline model model_of(const single_node& from) {
    model made;
    made.path = "node.onnx";
    made.opsets = {{"", from.opset}, {"ai.onnx.ml", 3}, {"ai.onnx.preview.training", 1}};
    node only = make_node(from.op, {}, {});
    only.domain = from.domain;
    only.attributes = from.with;
    for (std::size_t i = 0; i < from.inputs.size(); ++i) {
        const std::string name = "x" + std::to_string(i);
        only.inputs.push_back(from.inputs[i] ? name : "");
        if (from.inputs[i]) made.body.inputs.push_back({name, from.inputs[i].type(), {}});
    }
    for (std::size_t i = 0; i < from.outputs; ++i) {
        only.outputs.push_back("y" + std::to_string(i));
        made.body.outputs.push_back({only.outputs.back(), io::dtype::f32, {}});
    }
    made.body.nodes = {std::move(only)};
    return made;
}

inline std::vector<any_tensor> run_node(const single_node& what, scheduling_policy& on) {
    std::vector<any_tensor> inputs;
    for (const any_tensor& input : what.inputs) {
        if (input) inputs.push_back(input);
    }
    const network made = sync(make_network(model_of(what)), on);
    return sync(made.run(std::move(inputs)), on);
}

// Its outputs, computed on the CPU.
inline std::vector<any_tensor> outputs_of(const single_node& what) {
    runtime machine{runtime_options{.cpu_devices = 1, .cuda = false}};
    single_stream on(machine.find("cpu:0"));
    return run_node(what, on);
}

// Each is refused on the CPU, with this code, by a message that names the file and the node.
inline void expect_refusals(const std::vector<bad_node>& all) {
    runtime machine{runtime_options{.cpu_devices = 1, .cuda = false}};
    single_stream on(machine.find("cpu:0"));
    for (const bad_node& each : all) {
        SCOPED_TRACE(each.op + ": " + each.why);
        try {
            static_cast<void>(run_node({each.op, each.inputs, each.with, each.domain, each.opset, each.outputs}, on));
            ADD_FAILURE() << "is taken";
        } catch (const error& failure) {
            EXPECT_EQ(failure.code(), each.code) << failure.what();
            EXPECT_THAT(failure.what(), ::testing::HasSubstr("node.onnx: node 0 (" + each.op + ")"));
            EXPECT_THAT(failure.what(), ::testing::HasSubstr(each.why));
        }
    }
}

}  // namespace sluice::nn::test_support

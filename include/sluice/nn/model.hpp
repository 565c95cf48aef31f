// SPDX-License-Identifier: Apache-2.0
// model: a network as a checked graph of typed values, in host memory.
//
//     const nn::model network = nn::load_onnx("digits.onnx");
//     for (const nn::node& each : network.body.nodes) std::cout << each.op << '\n';
//
// A node applies an operator to values and gives values. Values have names, and each is given once: by an input, a
// constant, or a node. A node takes only values that come before it, so the nodes' order is an order in which the
// network can be computed. nn::check says whether a graph is so; what load_onnx returns is checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sluice/io/dtype.hpp"

namespace sluice::nn {

// A length: a number, or one that is known when the network runs. Those of one name, unless it is empty, are equal.
struct dimension {
    std::optional<std::size_t> length;  // none: known when the network runs
    std::string name;                   // "batch"; empty when it has none
};

// In a graph of a node the file may leave out the type; then the type here says nothing, and there is no shape.
struct value_info {
    std::string name;                             // as in the file
    io::dtype type = io::dtype::f32;              // of the elements
    std::optional<std::vector<dimension>> shape;  // none: not even the number of dimensions is known
    bool is_text = false;                         // the elements, i64, are codes of texts: model::texts
};

// A tensor that the network contains: row-major, little-endian. Copies share the bytes.
struct constant {
    io::dtype type = io::dtype::f32;           // of the elements
    std::vector<std::size_t> shape;            // row-major; empty: one element
    std::shared_ptr<const std::string> bytes;  // the elements of this type and shape, and no more
    bool is_text = false;                      // the elements, i64, are codes of texts: model::texts

    // The number of elements. Costs O(1).
    std::size_t elements() const noexcept { return bytes->size() / io::size_of(type); }
    // The elements as bytes; valid as long as `bytes`. Costs O(1).
    std::span<const std::byte> raw() const noexcept { return std::as_bytes(std::span(*bytes)); }
};

struct graph;

// Numbers, text, tensors, or a graph (of If, Loop, Scan).
using attribute = std::variant<std::int64_t, float, std::string, constant, std::vector<std::int64_t>,
                               std::vector<float>, std::vector<std::string>, std::shared_ptr<const graph>>;

// One operator of a graph, with the values that it takes and gives.
struct node {
    std::string name;                                          // may be empty
    std::string domain;                                        // of the operator; empty: ONNX's own
    std::string op;                                            // "Gemm"
    std::vector<std::string> inputs;                           // names of values; an empty one: this input is left out
    std::vector<std::string> outputs;                          // the same
    std::map<std::string, attribute, std::less<>> attributes;  // by name

    // The attribute of this name, or null. Throws error (errc::bad_file) when it is there with another type. Costs
    // O(log attributes).
    template <typename T>
    const T* find(std::string_view attribute_name) const {
        const auto found = attributes.find(attribute_name);
        if (found == attributes.end()) return nullptr;
        if (const T* const value = std::get_if<T>(&found->second)) return value;
        refuse_type(attribute_name);
    }

private:
    [[noreturn]] void refuse_type(std::string_view attribute_name) const;
};

// Values and the nodes that give them: a network, or the graph of a node.
struct graph {
    std::string name;                                        // may be empty
    std::vector<value_info> inputs;                          // in the network's order
    std::vector<value_info> outputs;                         // values that the graph gives
    std::map<std::string, constant, std::less<>> constants;  // by the names of their values
    std::vector<node> nodes;                                 // each after those whose values it takes
    // Inputs that a caller may leave out: each has a constant of its name, and is none of `inputs`. See take_default.
    std::vector<value_info> defaults;
};

// A network, as load_onnx and model_builder make it.
struct model {
    std::filesystem::path path;  // the file, for messages
    // The version of each domain's operators for which the network was written.
    std::map<std::string, std::int64_t, std::less<>> opsets;
    std::string producer;  // "pytorch 2.11", or empty
    // The texts that the network knows, such as categories and labels. It computes with their codes, which are their
    // places here. Any other text has the code -1. See text_codes.hpp.
    std::vector<std::string> texts;
    graph body;  // the network's graph
};

// How messages call a node: `node "fc1" (Gemm)`, or for one without a name, `node 3 (Gemm)`, counted from 0. Costs
// O(bytes of the names).
std::string label_of(const node& which, std::size_t position);

// Throws file_error (errc::bad_file) that names the file, the node and the value: when a value is given twice or before
// it exists, when an output is never given, or when a graph of a node is wrong in the same ways. Costs, on average,
// O(names) for a graph without graphs inside; the names of an inner graph are also looked up in those around it.
void check(const model& network);

}  // namespace sluice::nn

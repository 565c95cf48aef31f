// SPDX-License-Identifier: Apache-2.0
// own_operator: an operator of your own, of a domain of your own, for the networks that are made with it.
//
//     const nn::own_operators operators({{.domain = "com.example",
//                                         .name = "Swish",
//                                         .attributes = {"beta"},
//                                         .run = &run_swish}});     // void run_swish(nn::operator_call& node)
//     const nn::network network = sync(nn::make_network(nn::load_onnx("model.onnx"), operators), pool);
//
// operator_call.hpp says what the function sees and does. One function serves GPUs, CPUs, the host and shape inference.
// Operators belong to the networks that they are given to: nothing is registered for the whole program.
//
// Thread safety: immutable while it is shared; copies share the operators, and each network keeps those that it needs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::nn {

class operator_call;

struct own_operator {
    static constexpr std::size_t any_number = ~std::size_t{0};  // for most_inputs and most_outputs: no limit

    std::string domain = {};  // "com.example"; names that begin with ai.onnx belong to ONNX
    std::string name = {};    // "Swish"
    // Versions of the domain's operator set; the newest are open.
    std::int64_t since = 1;
    std::optional<std::int64_t> until = {};  // none: the newest
    // A node has between least_inputs and most_inputs inputs; those after the least may be left out.
    std::size_t least_inputs = 1, most_inputs = 1;
    std::size_t most_outputs = 1;              // a node with more outputs is refused
    std::vector<std::string> attributes = {};  // a node with another one is refused
    // Inputs whose elements have to be in host memory before the function is called, because it reads them: a shape, an
    // axis. Numbers that the device computes are refused there.
    std::vector<std::size_t> host_inputs = {};
    // Inputs of which only the type and the shape matter: they are never computed for this node.
    std::vector<std::size_t> shape_inputs = {};
    // Whether the outputs are others each time: random numbers. Then they are not computed beforehand.
    bool is_random = false;
    // Makes the outputs and submits the work. Called each time the network is submitted or recorded, on any thread, and
    // on several at the same time. It does the same for the same shapes, attributes and host inputs.
    std::function<void(operator_call&)> run = {};
};

// The operators that a network is made with.
class own_operators {
public:
    own_operators() = default;
    // Adds each, as add() does, and throws what that throws. Costs what these calls of add() cost.
    own_operators(std::initializer_list<own_operator> all) {
        for (const own_operator& each : all) add(each);
    }

    // Throws error (errc::invalid_argument) for a domain of ONNX (empty, ai.onnx and ai.onnx.*), since operators of
    // ONNX cannot be replaced; for one that is there already in a version of these; for an empty name, no function,
    // fewer inputs at most than at least, and an input in host_inputs or shape_inputs that no node can have. Costs
    // O(operators).
    void add(own_operator what);

    // The operators, in the order in which they were added.
    const std::vector<std::shared_ptr<const own_operator>>& all() const noexcept { return all_; }
    // In any version. Costs O(operators).
    bool contains(std::string_view domain, std::string_view name) const {
        return std::ranges::any_of(all_,
                                   [&](const auto& each) { return each->domain == domain && each->name == name; });
    }

private:
    std::vector<std::shared_ptr<const own_operator>> all_;
};

}  // namespace sluice::nn

// SPDX-License-Identifier: Apache-2.0
// Random programs, built as operations.
#pragma once

#include <functional>
#include <memory>
#include <tuple>
#include <vector>

#include "sluice/graph/executable_graph.hpp"
#include "sluice/op/any_operation.hpp"
#include "sluice/runtime/pending.hpp"
#include "sluice/runtime/tensor.hpp"
#include "stress/program.hpp"

namespace sluice::stress {

using some_operation = any_operation<tensor<float>>;
using landed = pending<std::vector<float>>;
using outputs = std::tuple<tensor<float>, landed, landed>;

using inner_function = std::function<some_operation(tensor<float>, shared_tensor<float>, float)>;
using inner_graph = executable_graph<inner_function, device_input<float>, shared_input<float>, argument<float>>;

// owned, read, host, s, k
using function = std::function<any_operation<outputs>(tensor<float>, shared_tensor<float>, tensor<float>, float, int)>;
using compiled = executable_graph<function, device_input<float>, shared_input<float>, host_input<float>,
                                  argument<float>, argument<int>>;

inner_function make_inner();
inner_graph compile_inner(device& on, std::size_t width, std::size_t replicas);

// What a program may use in addition to its arguments. Owns the device memory.
struct surroundings {
    std::vector<shared_tensor<float>> captured, selection;
    std::shared_ptr<const inner_graph> inner;
};

function make_function(const program& what, const surroundings& with);
compiled compile_program(device& on, const program& what, const surroundings& with, std::size_t replicas);

}  // namespace sluice::stress

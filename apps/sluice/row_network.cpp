// SPDX-License-Identifier: Apache-2.0
#include "row_network.hpp"

#include <vector>

#include "sluice/base/error.hpp"
#include "sluice/nn/row_independence.hpp"

namespace sluice::app {
namespace {

// The number of features, and 0 for what is no matrix of f32. Its number of rows is left open then.
std::size_t free_rows(std::vector<nn::value_info>& values) {
    if (values.size() != 1 || values.front().type != io::dtype::f32 || !values.front().shape) return 0;
    std::vector<nn::dimension>& shape = *values.front().shape;
    if (shape.size() != 2 || !shape.back().length) return 0;
    if (shape.front().length) shape.front() = {.length = {}, .name = "batch"};
    return *shape.back().length;
}

}  // namespace

std::optional<row_network> by_rows(const nn::model& network) {
    row_network made{network};
    made.in = free_rows(made.network.body.inputs);
    made.out = free_rows(made.network.body.outputs);
    if (made.in == 0 || made.out == 0) return std::nullopt;
    try {
        if (!nn::find_row_independence(made.network).is_along_first_axes()) return std::nullopt;
    } catch (const error&) {  // what is wrong with it is said where it is run
        return std::nullopt;
    }
    return made;
}

}  // namespace sluice::app

// SPDX-License-Identifier: Apache-2.0
// choose_precision: the fastest precision that keeps a network's outputs, measured on inputs of yours.
//
//     const nn::precision_choice choice = nn::choose_precision(model, sample, pool);
//     const nn::network fast = sync(nn::make_network(model, {.precision = choice.chosen}), pool);
//
// What is measured holds for these inputs. Give some that are like those to come, not random numbers.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sluice/nn/any_tensor.hpp"
#include "sluice/nn/model.hpp"
#include "sluice/nn/precision.hpp"

namespace sluice {
class scheduling_policy;
}

namespace sluice::nn {

// How the outputs of one precision differ from those of f32.
struct output_difference {
    // Of two elements; infinite where one is NaN and the other is not, or one is infinite. Elements that are equal, or
    // both NaN, do not differ.
    double largest = 0;
    // The same divided by the largest finite magnitude of the output in f32; the largest of all outputs.
    double relative = 0;
    // Rows of outputs with two or more dimensions (all but the last one count rows), and those whose largest element is
    // at the same place. Of outputs that are not floating point: elements, and those that are equal.
    std::size_t rows = 0, agreeing_rows = 0;
};

// Both in host memory, of the same types and shapes. Throws errc::shape_mismatch for others. Costs O(elements).
output_difference difference_of(const std::vector<any_tensor>& f32, const std::vector<any_tensor>& rounded);

// What is accurate enough.
struct precision_bounds {
    double relative_difference = 0.01;  // of output_difference::relative: the largest
    bool keeps_largest = true;          // all rows agree
};

// One precision, on the sample.
struct precision_measurement {
    rounding_report rounding;      // of the network in this precision
    double seconds = 0;            // of one run, the median
    output_difference difference;  // from the outputs in f32
    bool is_accurate = false;      // within the bounds
};

// What choose_precision found.
struct precision_choice {
    // f32 where no other one is accurate and at least 5 % faster.
    precision chosen = precision::f32;
    std::vector<precision_measurement> measured;  // f32 first
};

// Makes the network in each precision and runs it several times on the sample, which are inputs in host memory. Blocks.
// Throws what make_network and network::run throw. Costs make_network and a run for each of the four precisions, and
// then at least five runs of each, until 0.3 s have passed.
precision_choice choose_precision(const model& from, const std::vector<any_tensor>& sample, scheduling_policy& pool,
                                  const precision_bounds& bounds = {});

}  // namespace sluice::nn

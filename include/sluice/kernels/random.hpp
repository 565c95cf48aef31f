// SPDX-License-Identifier: Apache-2.0
// uniform, randn: tensors of random numbers. The same seed gives the same numbers, bit for bit, on a CPU and on a GPU,
// whatever the shape: element i of a seed's sequence is a function of the seed and i alone (philox.hpp).
#pragma once

#include <cstdint>

#include "sluice/base/source_location.hpp"
#include "sluice/op/operation.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice {

enum class distribution : unsigned char {
    uniform,  // in [0, 1), multiples of 2^-24
    normal,   // mean 0, deviation 1
};

// The plain form: every element of x, as one command on a stream. Does not block. Sequences that continue from `first`,
// the place of x's first element in the sequence, are disjoint parts of one.
void fill_random(stream on, tensor<float>& x, distribution what, std::uint64_t seed, std::uint64_t first = 0,
                 source_location location = source_location::current());

class random_operation : public operation_base<random_operation> {
public:
    using output = tensor<float>;

    random_operation(const shape& shape, distribution what, std::uint64_t seed, source_location location)
        : shape_(shape), what_(what), seed_(seed), location_(location) {}

    output submit(execution_context& context) && {
        tensor<float> made(context.stream(), shape_, {"random", {}, location_});
        fill_random(context.stream(), made, what_, seed_, 0, location_);
        return made;
    }
    work_estimate estimate() const { return {1, shape_.size() * sizeof(float)}; }

private:
    shape shape_;
    distribution what_;
    std::uint64_t seed_;
    source_location location_;
};

// A new device tensor.
inline auto uniform(const shape& shape, std::uint64_t seed, source_location location = source_location::current()) {
    return random_operation(shape, distribution::uniform, seed, location);
}
inline auto randn(const shape& shape, std::uint64_t seed, source_location location = source_location::current()) {
    return random_operation(shape, distribution::normal, seed, location);
}

}  // namespace sluice

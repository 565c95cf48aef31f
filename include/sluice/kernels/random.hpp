// SPDX-License-Identifier: Apache-2.0
// uniform, randn: tensors of random numbers. The same seed gives the same numbers, bit for bit, on a CPU and on a GPU,
// whatever the shape: element i of a seed's sequence is a function of the seed and i alone (philox.hpp).
//
//     uniform({64, 64}, 7)                               // f32 in [0, 1), seed 7
//     randn<half>({64, 64}, 7, {.deviation = 0.02f})     // f16, mean 0
//     auto noise = randn({64, 64});                      // a seed of its own, which seed() returns:
//     const std::uint64_t seed = noise.seed();           // randn({64, 64}, seed) makes the same numbers again
//
// Elements are float, half or bfloat16. A number is computed in float and rounded once: uniform as low + u * (high -
// low), where u is a multiple of 2^-24 in [0, 1), and normal as mean + deviation * z. A uniform number that rounding
// moves out of [low, high) becomes the nearest element in it. A normal number beyond the type's range is infinite.
//
// Each operation costs a new tensor and one command.
//
// An operation without a given seed draws one when it is made (fresh_seed). In a compiled graph a given seed makes the
// same numbers at each launch. A function that makes an operation without one is recorded again for each launch, and
// each launch makes other numbers; an argument<std::uint64_t> as the seed costs less.
//
// Errors, thrown when the operation is made or the plain form is called: errc::invalid_argument when low, high, high -
// low, mean or deviation is not finite, when no element lies in [low, high), or when the deviation is below 0; and for
// a tensor that was moved from. No elements: nothing is submitted.
#pragma once

#include <concepts>
#include <cstdint>

#include "sluice/base/half.hpp"
#include "sluice/base/source_location.hpp"
#include "sluice/op/detail/single_use.hpp"
#include "sluice/op/operation.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice {

// Elements that random numbers can be.
template <typename T>
concept random_element = std::same_as<T, float> || std::same_as<T, half> || std::same_as<T, bfloat16>;

// In [low, high).
struct uniform_distribution {
    float low = 0;   // may be a result
    float high = 1;  // is no result
};
// With deviation 0 every number is the mean.
struct normal_distribution {
    float mean = 0;       // of all numbers
    float deviation = 1;  // the standard deviation, at least 0
};

// A seed that this process has not drawn before. The first one is drawn from std::random_device. Any thread may call
// it. Costs O(1): one atomic addition.
std::uint64_t fresh_seed();

namespace detail {
template <random_element T>
void require_distribution(const uniform_distribution& of, const source_location& location);
template <random_element T>
void require_distribution(const normal_distribution& of, const source_location& location);
}  // namespace detail

// The plain forms: every element of x, as one command on a stream. They do not block. Sequences that continue from
// `first`, the place of x's first element in the sequence, are disjoint parts of one. Each costs one command.
template <random_element T>
void fill_random(stream on, tensor<T>& x, const uniform_distribution& of, std::uint64_t seed, std::uint64_t first = 0,
                 source_location location = source_location::current());
template <random_element T>
void fill_random(stream on, tensor<T>& x, const normal_distribution& of, std::uint64_t seed, std::uint64_t first = 0,
                 source_location location = source_location::current());

// The operation that uniform and randn return.
template <random_element T, typename Distribution>
class random_operation : public operation_base<random_operation<T, Distribution>> {
public:
    using output = tensor<T>;

    random_operation(const shape& shape, const Distribution& of, std::uint64_t seed, const source_location& location)
        : shape_(shape), of_(of), seed_(seed), location_(location) {
        detail::require_distribution<T>(of, location);
    }

    // What makes the same numbers again.
    std::uint64_t seed() const noexcept { return seed_; }

    output submit(execution_context& context) && {
        once_.use("random");
        tensor<T> made(context.stream(), shape_, {"random", {}, location_});
        fill_random(context.stream(), made, of_, seed_, 0, location_);
        return made;
    }
    work_estimate estimate() const { return {1, shape_.size() * sizeof(T)}; }

private:
    shape shape_;
    Distribution of_;
    std::uint64_t seed_;
    source_location location_;
    detail::single_use once_;
};

// A new device tensor.
template <random_element T = float, std::integral Seed>
auto uniform(const shape& shape, Seed seed, const uniform_distribution& of = {},
             source_location location = source_location::current()) {
    return random_operation<T, uniform_distribution>(shape, of, static_cast<std::uint64_t>(seed), location);
}
template <random_element T = float, std::integral Seed>
auto randn(const shape& shape, Seed seed, const normal_distribution& of = {},
           source_location location = source_location::current()) {
    return random_operation<T, normal_distribution>(shape, of, static_cast<std::uint64_t>(seed), location);
}
// The same with a fresh seed.
template <random_element T = float>
auto uniform(const shape& shape, const uniform_distribution& of = {},
             source_location location = source_location::current()) {
    return random_operation<T, uniform_distribution>(shape, of, fresh_seed(), location);
}
template <random_element T = float>
auto randn(const shape& shape, const normal_distribution& of = {},
           source_location location = source_location::current()) {
    return random_operation<T, normal_distribution>(shape, of, fresh_seed(), location);
}

}  // namespace sluice

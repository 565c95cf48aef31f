// A few kernels for tests that are about something else, so that those need no nvcc. All spin for `rounds`
// before they write, which makes them as slow as a test wants.
#pragma once

#include "sluice/op/any_operation.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice::conformance {

// Plain forms: one command on the stream.

// x = value
void set_on(stream& on, tensor<unsigned>& x, unsigned value, unsigned rounds = 0);
// x = 3 * x + addend: the order of several steps shows in the result.
void step_on(stream& on, tensor<unsigned>& x, unsigned addend, unsigned rounds = 0);
// to = from
void relay_on(stream& on, const tensor<unsigned>& from, tensor<unsigned>& to, unsigned rounds = 0);

// Code for a stream of the backend that knows nothing of Sluice: copies half of it on the stream and half on another
// one that it forks to and joins. On a CPU it copies.
void copy_by_hand(const native_stream& on, const unsigned* from, unsigned* to, std::size_t size);

// The same as operations.
any_operation<tensor<unsigned>> step(tensor<unsigned> x, unsigned addend, unsigned rounds = 0);
// x = weight + x, elementwise; both of one size.
any_operation<tensor<unsigned>> add(shared_tensor<unsigned> weight, tensor<unsigned> x, unsigned rounds = 0);

// What `steps` steps with the addends 0, 1, 2 ... make of `x`.
constexpr unsigned after_steps(unsigned x, unsigned steps) {
    for (unsigned i = 0; i < steps; ++i) x = 3 * x + i;
    return x;
}

}  // namespace sluice::conformance

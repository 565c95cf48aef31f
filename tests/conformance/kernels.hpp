// SPDX-License-Identifier: Apache-2.0
// A few kernels for tests of other things, so that those tests need no nvcc. All spin for `rounds` before they write,
// which makes them as slow as a test needs.
#pragma once

#include "sluice/op/any_operation.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice::conformance {

// Plain forms: one command on the stream.

// x = value
void set_on(stream on, tensor<unsigned>& x, unsigned value, unsigned rounds = 0);
// x = 3 * x + addend: the order of several steps shows in the result.
void step_on(stream on, tensor<unsigned>& x, unsigned addend, unsigned rounds = 0);
// to = from
void relay_on(stream on, const tensor<unsigned>& from, tensor<unsigned>& to, unsigned rounds = 0);

// Code for a native stream that knows nothing of Sluice: copies one half on the stream and the other half on another
// stream that it forks to and joins. On a CPU it just copies.
void copy_by_hand(const native_stream& on, const unsigned* from, unsigned* to, std::size_t size);

// The same as operations.
any_operation<tensor<unsigned>> step(tensor<unsigned> x, unsigned addend, unsigned rounds = 0);
// x = weight + x, elementwise; both of one size.
any_operation<tensor<unsigned>> add(shared_tensor<unsigned> weight, tensor<unsigned> x, unsigned rounds = 0);

// The value of `x` after `steps` steps with the addends 0, 1, 2 ...
constexpr unsigned after_steps(unsigned x, unsigned steps) {
    for (unsigned i = 0; i < steps; ++i) x = 3 * x + i;
    return x;
}

}  // namespace sluice::conformance

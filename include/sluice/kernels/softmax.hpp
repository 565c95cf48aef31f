// softmax over the last dimension of an f32 tensor, in place: exp(x - max) / sum(exp(x - max)), so that large
// inputs do not overflow. A row with NaN becomes all NaN.
#pragma once

#include "sluice/kernels/elementwise.hpp"

namespace sluice {

// The plain form: one command on a stream. Does not block.
void softmax(stream& on, tensor<float>& x, source_location where = source_location::current());

// The operation: takes the tensor over and gives it back.
inline auto softmax(tensor<float> x, source_location where = source_location::current()) {
    return activate_operation(std::move(x), activation::softmax, where);
}

}  // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// adopt_tensor: memory of others as an any_tensor on a device, without a copy.
//
//     const auto rows = nn::adopt_tensor(cpu, io::dtype::f32, {n, 64}, array->data(), array);
//     const auto answers = sync(digits.run({rows}), pool);
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "sluice/io/dtype.hpp"
#include "sluice/nn/any_tensor.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::nn {

// The tensor is only read. What adopt.hpp says of memory that is adopted as const holds here: about its alignment
// (adopted_alignment), the work of others, when the owner is released and on which thread, and errors. Submits nothing
// and does not block. Thread safety: may be called on any thread. Costs what adopt costs.
any_tensor adopt_tensor(device& on, io::dtype type, std::vector<std::size_t> shape, const void* data,
                        std::shared_ptr<const void> owner,
                        const source_location& location = source_location::current());

}  // namespace sluice::nn

// SPDX-License-Identifier: Apache-2.0
#include "sluice/nn/adopt_tensor.hpp"

#include <utility>

#include "sluice/runtime/adopt.hpp"

namespace sluice::nn {

any_tensor adopt_tensor(device& on, io::dtype type, std::vector<std::size_t> shape, const void* data,
                        std::shared_ptr<const void> owner, const source_location& location) {
    // Its type and shape, checked; a shape of the runtime has at most four dimensions, so there it is a row of bytes.
    const std::size_t bytes = any_tensor::of_shape(type, shape).size_bytes();
    storage_ref memory =
        sluice::detail::adopt_bytes(on, data, sluice::shape({bytes}), 1, io::size_of(type), std::move(owner), location);
    return any_tensor(type, std::move(shape), std::move(memory));
}

}  // namespace sluice::nn

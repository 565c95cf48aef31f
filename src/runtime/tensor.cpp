// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/tensor.hpp"

#include "sluice/runtime/device.hpp"

namespace sluice::detail {

void refuse_moved_tensor(const error_context& context) {
    throw error(
        errc::invalid_argument,
        "a tensor was used after it had been moved from (arguments of one call are evaluated in any order: take "
        "its shape before the call that moves it)",
        context);
}

std::size_t size_of_new_tensor(const shape& shape, const device& on, const command_info& info) {
    if (shape.is_none()) refuse_moved_tensor({info.name, on.name(), info.location});
    return shape.size();
}

}  // namespace sluice::detail

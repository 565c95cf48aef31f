// SPDX-License-Identifier: Apache-2.0
#include "sluice/kernels/whole_tensor.hpp"

#include "sluice/runtime/device.hpp"

namespace sluice {

bool detail::are_many_threads(stream on, std::size_t threads) {
    constexpr std::size_t a_multiprocessor = 2048;
    return threads > a_multiprocessor * static_cast<std::size_t>(on.owner().properties().compute_units);
}

}  // namespace sluice

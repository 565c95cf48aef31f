// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/buffer.hpp"

#include "sluice/runtime/device.hpp"

namespace sluice {

std::size_t detail::bytes_for(std::size_t count, std::size_t element_bytes, const device& on,
                              const command_info& info) {
    std::size_t bytes = 0;
    if (!__builtin_mul_overflow(count, element_bytes, &bytes)) return bytes;
    const memory_info there = on.memory();
    throw out_of_memory(~std::size_t{0}, there.free_bytes, {info.name, on.name(), info.location}, there.total_bytes);
}

}  // namespace sluice

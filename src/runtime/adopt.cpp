// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/adopt.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

#include "sluice/base/error.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice {
namespace {

// The address of tensors without elements and without an address.
alignas(256) std::byte nothing[1];

void require_alignment(const void* data, std::size_t alignment, const error_context& context) {
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    if (address % alignment == 0) return;
    throw error(errc::invalid_argument,
                "the memory begins " + std::to_string(address % alignment) + " bytes after a multiple of " +
                    std::to_string(alignment) + " bytes, which kernels need: copy it to memory that is aligned",
                context);
}

}  // namespace

std::size_t adopted_alignment(const device& on) noexcept { return on.kind() == device_kind::cuda ? 256 : 16; }

storage_ref detail::adopt_bytes(device& on, const void* data, const shape& shape, std::size_t element_bytes,
                                std::size_t element_alignment, std::shared_ptr<const void> owner,
                                const source_location& location) {
    const command_info info{"adopt", {}, location};
    const error_context context{info.name, on.name(), location};
    const std::size_t bytes = bytes_for(size_of_new_tensor(shape, on, info), element_bytes, on, info);
    if (owner == nullptr) {
        throw error(errc::invalid_argument,
                    "the memory needs an owner that keeps it, or a function that frees it, until the last command "
                    "that uses it is complete",
                    context);
    }
    if (bytes == 0) {
        if (data == nullptr) data = nothing;
    } else if (data == nullptr) {
        throw error(errc::invalid_argument, "the data of a tensor of shape " + to_string(shape) + " is null", context);
    } else if (reinterpret_cast<std::uintptr_t>(data) > ~std::uintptr_t{0} - bytes) {
        throw error(errc::invalid_argument,
                    std::to_string(bytes) + " bytes from this address go beyond the end of memory", context);
    } else {
        require_alignment(data, std::max(adopted_alignment(on), element_alignment), context);
    }
    // A shared tensor is never written, so nothing writes what was const.
    return on.device_pool().adopt(const_cast<void*>(data), bytes, std::move(owner), info);
}

}  // namespace sluice

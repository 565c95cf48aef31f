// SPDX-License-Identifier: Apache-2.0
#include "descriptor_io.hpp"

#include <unistd.h>

#include <limits>

namespace sluice::io {

write_outcome write_all_at(int descriptor, std::uint64_t offset, std::span<const std::byte> bytes) noexcept {
    constexpr auto last = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());
    if (offset > last || bytes.size() > last - offset) return {EFBIG, offset};
    while (!bytes.empty()) {
        const ssize_t written =
            retried([&] { return ::pwrite(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(offset)); });
        if (written < 0) return {errno, offset};
        if (written == 0) return {ENOSPC, offset};  // never promised not to happen; would loop forever
        bytes = bytes.subspan(static_cast<std::size_t>(written));
        offset += static_cast<std::uint64_t>(written);
    }
    return {};
}

}  // namespace sluice::io

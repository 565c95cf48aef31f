// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/row_copy.hpp"

#include <cstring>
#include <string>

namespace sluice {

void copy_on_host(const copy_command& command) noexcept {
    if (command.bytes == 0) return;
    for_each_row(command, [&](const std::byte* from, std::byte* to) {
        std::memmove(to, from, command.bytes);
        return true;
    });
}

namespace detail {

void require_rows(const copy_command& command, const error_context& context) {
    const copied_rows& rows = command.rows;
    if (rows.count == 1) return;
    if (rows.count == 0) throw error(errc::invalid_argument, "a copy has at least one row", context);
    if (rows.source_pitch < command.bytes || rows.destination_pitch < command.bytes) {
        throw error(errc::invalid_argument,
                    "rows of " + std::to_string(command.bytes) + " bytes need pitches of at least as many; these are " +
                        std::to_string(rows.source_pitch) + " at the source and " +
                        std::to_string(rows.destination_pitch) + " at the destination",
                    context);
    }
    if (command.source_device != nullptr) {
        throw error(errc::unsupported,
                    "a copy from another device has one row: copy the rows to a tensor of their own first", context);
    }
}

}  // namespace detail
}  // namespace sluice

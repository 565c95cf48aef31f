// SPDX-License-Identifier: Apache-2.0
// The rows of a copy command, for interpreters: how many bytes it moves, how far it reaches, and the copy itself where
// the host has access to both sides.
//
//     void copy(const command_info& info, const copy_command& command) override {
//         run(info, [&] { copy_on_host(command); });
//     }
//
// Row i begins at source + i * source_pitch and destination + i * destination_pitch. The bytes between two rows are
// neither read nor written. A stream refuses a pitch that is smaller than a row, so the rows of one side never overlap.
#pragma once

#include <cstddef>

#include "sluice/base/error.hpp"
#include "sluice/runtime/command.hpp"

namespace sluice {

// The bytes that a copy moves: those of all rows together. Costs O(1).
inline std::size_t copied_bytes(const copy_command& command) noexcept { return command.bytes * command.rows.count; }

namespace detail {
inline std::size_t reach_of_rows(std::size_t row_bytes, std::size_t count, std::size_t pitch) noexcept {
    return row_bytes == 0 || count == 0 ? 0 : (count - 1) * pitch + row_bytes;
}
}  // namespace detail

// From the first byte of the first row to the last byte of the last row. Costs O(1).
inline std::size_t source_reach(const copy_command& command) noexcept {
    return detail::reach_of_rows(command.bytes, command.rows.count, command.rows.source_pitch);
}
// The same at the destination. Costs O(1).
inline std::size_t destination_reach(const copy_command& command) noexcept {
    return detail::reach_of_rows(command.bytes, command.rows.count, command.rows.destination_pitch);
}

// Whether both copy as many bytes from and to places that lie in the same way. The pitches of one row do not matter.
// Costs O(1).
inline bool has_same_rows(const copy_command& a, const copy_command& b) noexcept {
    return a.bytes == b.bytes && a.rows.count == b.rows.count &&
           (a.rows.count == 1 ||
            (a.rows.source_pitch == b.rows.source_pitch && a.rows.destination_pitch == b.rows.destination_pitch));
}

// Calls f(source, destination) for each row, in order, until it returns false. Costs one call of f for each row.
template <typename Function>
void for_each_row(const copy_command& command, Function&& f) {
    const auto* from = static_cast<const std::byte*>(command.source);
    auto* to = static_cast<std::byte*>(command.destination);
    for (std::size_t row = 0; row < command.rows.count; ++row) {
        if (!f(from, to)) return;
        from += command.rows.source_pitch;
        to += command.rows.destination_pitch;
    }
}

// Copies on the calling thread. Memory that the host cannot access must not be named. Costs O(bytes + rows).
void copy_on_host(const copy_command& command) noexcept;

namespace detail {
// Throws errc::invalid_argument for a copy without rows and for a pitch smaller than a row; errc::unsupported for rows
// of another device.
void require_rows(const copy_command& command, const error_context& context);
}  // namespace detail

}  // namespace sluice

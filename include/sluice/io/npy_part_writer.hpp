// SPDX-License-Identifier: Apache-2.0
// Writes some rows of an array of f32 that another process creates: many processes, on many machines, write one file.
//
// One of them creates an npy_writer and sends its part() to the others. Each process writes its own rows and calls
// finish(). The one that created the file then counts the rows (npy_writer::count_rows_of_others) and commits. All must
// see the same file system.
//
// Thread safety: as npy_writer's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "sluice/base/file_error.hpp"
#include "sluice/io/file_descriptor.hpp"

namespace sluice::io {

// An array while it is written.
struct npy_part {
    std::filesystem::path file;     // the temporary one, absolute
    std::uint64_t data_offset = 0;  // of the first element, in bytes from the start of the file
    std::size_t rows = 0;           // of the whole array
    std::size_t row_bytes = 0;      // of one row
};

// Writes rows into an npy_part that another process has created.
class npy_part_writer {
public:
    // Opens the file. Throws file_error (errc::io_failed) when it cannot be seen from here, or is not that file. Costs
    // two calls of the system.
    explicit npy_part_writer(npy_part part);

    // Writes whole rows. Throws sluice::error: errc::shape_mismatch when `values` is not a whole number of rows,
    // errc::invalid_argument past the end; file_error (errc::io_failed) when the system refuses. Costs O(values).
    void write_rows(std::size_t first_row, std::span<const float> values);
    // Blocks until what was written is on the disk, where other machines find it. Throws file_error (errc::io_failed).
    // Costs the wait for the disk.
    void finish();

private:
    [[noreturn]] void fail(const char* what, int cause, std::uint64_t offset) const;

    npy_part part_;
    io::file_descriptor descriptor_;
};

}  // namespace sluice::io

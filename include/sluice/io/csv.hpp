// SPDX-License-Identifier: Apache-2.0
// Reader of tables of numbers as text: CSV, also with semicolons, tabs or spaces.
//
//     const io::csv_table table = io::read_csv("houses.csv", io::dtype::f32);
//     table.rows, table.columns, table.names                          // names: those of the header line, if there is
//     one
//
// Each cell is one number of the requested type, exactly where the type is one of integers. Numbers may be in quotes
// and between spaces. Floats are decimal, with a point; nan and inf in any case are read; booleans are 0, 1, true,
// false. Lines end with LF or CR LF, the last one also with the file; empty lines may be at the end only. A UTF-8
// byte order mark is skipped, and so are lines at the top that begin with #.
//
// Everything else is refused with a file_error that names the file, the byte offset, the line and the column, both
// counted from 1: empty cells, words such as NA, numbers that the type cannot hold, decimal commas, lines that are
// longer or shorter than the first, text in UTF-16, a file without rows.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sluice/base/file_error.hpp"
#include "sluice/io/dtype.hpp"

namespace sluice::io {

// Whether the first line has the names of the columns.
enum class csv_header {
    // The first line is a header when none of its cells is a number. It is refused when only some are, and when it
    // counts 0, 1, 2, ... as tools do for columns without names: then the caller must say what it is.
    recognized,
    present,
    absent,
};

// How a file is read.
struct csv_options {
    // None: the first of tab, semicolon and comma that is in the first line, else space. Several spaces are one
    // separator.
    std::optional<char> separator;
    csv_header header = csv_header::recognized;  // whether there is a header line
};

// A table of numbers.
struct csv_table {
    dtype type = dtype::f32;         // of all elements
    std::size_t rows = 0;            // without the header
    std::size_t columns = 0;         // of each row
    std::vector<std::string> names;  // of the columns; empty without a header
    std::vector<std::byte> bytes;    // the elements, row-major
};

// Reads the file, and closes it. Blocks. The elements take at most 4 times the file's size, in addition to the mapped
// file. Throws file_error as above; errc::out_of_memory when the host does not have that memory; error
// (errc::invalid_argument) for a separator that may be in numbers or ends lines. Costs O(bytes of the file).
csv_table read_csv(const std::filesystem::path& path, dtype type, csv_options options = {});

// The same from memory. Errors name `label` in place of a path.
csv_table parse_csv(std::span<const std::byte> file, const std::filesystem::path& label, dtype type,
                    csv_options options = {});

}  // namespace sluice::io

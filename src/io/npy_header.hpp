// SPDX-License-Identifier: Apache-2.0
// The header of a .npy file: a magic string, a version, a length, and a Python dict with three entries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/io/dtype.hpp"

namespace sluice::io {

struct npy_text {
    bool is_unicode = false;  // code points of 4 bytes each
    std::size_t bytes = 0;    // of an element
};

struct npy_header {
    dtype type{};
    std::optional<npy_text> text;  // of elements that are texts: `type` says nothing then
    bool fortran_order = false;
    std::vector<std::size_t> shape;
    std::uint64_t data_offset = 0;
    // The offset of each entry's value in the file, for errors.
    std::uint64_t descr_at = 0;
    std::uint64_t fortran_order_at = 0;
    std::uint64_t shape_at = 0;
};

// NumPy's own limit is 64.
inline constexpr std::size_t npy_most_dimensions = 64;

// Parses and checks the header of `file`, which holds the whole file, but not against what follows it. Throws
// file_error about `path`.
npy_header parse_npy_header(std::span<const std::byte> file, const std::filesystem::path& path);

// The header of a row-major array, up to the first element: as NumPy writes it, byte for byte.
std::string make_npy_header(dtype type, std::span<const std::size_t> shape);
// The same with NumPy's description of the elements, with their byte order.
std::string make_npy_header(std::string_view description, std::span<const std::size_t> shape);

}  // namespace sluice::io

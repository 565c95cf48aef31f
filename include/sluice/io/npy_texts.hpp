// SPDX-License-Identifier: Apache-2.0
// Arrays of texts in NumPy's .npy format: elements '<U' (code points of 4 bytes) and 'S' (bytes).
//
//     const io::npy_texts names = io::read_npy_texts("names.npy");  // numpy.save("names.npy", numpy.array(["a", "b"]))
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/base/file_error.hpp"

namespace sluice::io {

// An array of texts.
struct npy_texts {
    std::vector<std::size_t> shape;  // the lengths of the dimensions
    std::vector<std::string> texts;  // row-major, in UTF-8; those of 'S' as they are
};

// Reads the file, and closes it. Blocks. Throws file_error for arrays of anything else (also of Python objects: save
// a.astype(str)), and for what npy_view refuses. Costs O(bytes).
npy_texts read_npy_texts(const std::filesystem::path& path);
// The same from memory. Errors name `label` in place of a path.
npy_texts parse_npy_texts(std::span<const std::byte> file, const std::filesystem::path& label);

// Writes '<U' with room for the longest text; the file appears whole or not at all. Blocks. The texts are UTF-8. Throws
// error (errc::invalid_argument) for one that is not, and for a number of texts that is not the shape's; write_error.
// Costs O(texts * longest).
void write_npy_texts(const std::filesystem::path& target, std::span<const std::size_t> shape,
                     std::span<const std::string_view> texts);

}  // namespace sluice::io

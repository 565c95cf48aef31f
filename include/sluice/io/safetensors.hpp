// SPDX-License-Identifier: Apache-2.0
// Reader of the safetensors format: an eight-byte length, a JSON header, then the tensors' bytes.
//
// Nothing in a file is trusted. Everything is checked when the file is opened, and what does not fit is refused
// with a file_error that names the file, the byte offset and the field: headers longer than the file or than
// 100 MB, invalid JSON or UTF-8, duplicate names, unknown element types, offsets that are reversed, out of
// range, overlapping, or unequal to shape times element size, unclaimed bytes between or after the tensors.
//
// Thread safety: immutable once constructed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/base/file_error.hpp"
#include "sluice/io/dtype.hpp"
#include "sluice/io/mapped_file.hpp"

namespace sluice::io {

// One tensor of a file.
struct tensor_entry {
    std::string name;                  // as in the file
    dtype type;                        // of each element
    std::vector<std::size_t> shape;    // row-major; empty for a scalar; a dimension may be 0
    std::uint64_t offset;              // of the first data byte, from the start of the file
    std::span<const std::byte> bytes;  // not necessarily aligned for the type
};

// The tensors of a file that is already in memory. Does not own the bytes: they must outlive it.
class safetensors_view {
public:
    using metadata_map = std::map<std::string, std::string, std::less<>>;  // names and values

    // Parses and checks `file`, which holds the whole file. Errors name `label` in place of a path. Costs O(bytes of
    // the header) and O(n log n) for n tensors; the tensors' bytes are not read.
    safetensors_view(std::span<const std::byte> file, std::filesystem::path label);

    const std::filesystem::path& path() const noexcept { return path_; }  // the path or label that errors name
    // In the order of their bytes in the file.
    const std::vector<tensor_entry>& tensors() const noexcept { return tensors_; }
    // Null when there is no such tensor. Costs O(log tensors).
    const tensor_entry* find(std::string_view name) const noexcept;
    // The free-form strings under "__metadata__".
    const metadata_map& metadata() const noexcept { return metadata_; }
    // Where in the file the metadata stand, for errors about them; 0 when there are none.
    std::uint64_t metadata_offset() const noexcept { return metadata_offset_; }

private:
    std::filesystem::path path_;
    std::vector<tensor_entry> tensors_;
    std::map<std::string, std::size_t, std::less<>> index_;
    metadata_map metadata_;
    std::uint64_t metadata_offset_ = 0;
};

// The same over a file on disk, which it keeps mapped.
class safetensors_file {
public:
    // Maps the file, parses and checks it. Throws file_error. Costs what safetensors_view's constructor costs, and
    // calls of the system.
    explicit safetensors_file(std::filesystem::path path)
        : file_(std::move(path)), view_(file_.bytes(), file_.path()) {}

    const safetensors_view& view() const noexcept { return view_; }  // valid while this lives
    const mapped_file& file() const noexcept { return file_; }       // the mapping
    // As safetensors_view::tensors. Costs O(1).
    const std::vector<tensor_entry>& tensors() const noexcept { return view_.tensors(); }
    // As safetensors_view::find. Costs O(log tensors).
    const tensor_entry* find(std::string_view name) const noexcept { return view_.find(name); }
    // As safetensors_view::metadata. Costs O(1).
    const safetensors_view::metadata_map& metadata() const noexcept { return view_.metadata(); }

private:
    mapped_file file_;
    safetensors_view view_;
};

}  // namespace sluice::io

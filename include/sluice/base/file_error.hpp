// SPDX-License-Identifier: Apache-2.0
// file_error: a file was refused, or the operating system refused to read or write it.
//
// Thread safety: error objects are immutable once thrown.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "sluice/base/error.hpp"

namespace sluice {

// A file was refused. The message reads "PATH: at byte OFFSET: FIELD: why".
class file_error : public error {
public:
    // The offset of an error that concerns the whole file.
    static constexpr std::uint64_t no_offset = ~std::uint64_t{0};

    // Makes the message from its arguments. An empty field, and no_offset, are left out of it. Costs O(bytes of the
    // message).
    file_error(std::filesystem::path path, std::uint64_t offset, std::string_view field, std::string_view why,
               errc code = errc::bad_file);

    const std::filesystem::path& path() const noexcept { return path_; }  // the path of the file that was refused
    std::uint64_t offset() const noexcept { return offset_; }             // no_offset when it concerns the whole file
    const std::string& field() const noexcept { return field_; }  // the name in the file that is wrong; may be empty

private:
    std::filesystem::path path_;
    std::uint64_t offset_;
    std::string field_;
};

}  // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// write_error: the system failed to write: no space on the disk, a quota, a broken disk. Another file name would not
// help, as it does where a file_error says that the file cannot be created.
#pragma once

#include <filesystem>
#include <string_view>
#include <utility>

#include "sluice/base/file_error.hpp"

namespace sluice::io {

// A file_error with errc::io_failed.
class write_error : public file_error {
public:
    // The parameters are file_error's: `what` is the field. Costs O(bytes of the message).
    write_error(std::filesystem::path path, std::uint64_t offset, std::string_view what, std::string_view why)
        : file_error(std::move(path), offset, what, why, errc::io_failed) {}
};

}  // namespace sluice::io

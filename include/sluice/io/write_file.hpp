// SPDX-License-Identifier: Apache-2.0
// Writes a file through a stream, whole or not at all.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>

#include "sluice/base/file_error.hpp"
#include "sluice/io/atomic_file.hpp"

namespace sluice::io {

// Has `write` write the contents of an atomic_file that is empty, and commits it. Blocks until it is on the disk.
// Throws file_error (errc::io_failed), and what `write` throws; then the file is not committed. Costs what `write`
// writes, and what atomic_file::commit costs.
void write_file(atomic_file& to, const std::function<void(std::ostream& to)>& write);

// The same for a path: replaces the file there, or the symbolic link, which is not followed.
void write_file(const std::filesystem::path& file, const std::function<void(std::ostream& to)>& write);

}  // namespace sluice::io

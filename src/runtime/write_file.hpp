// Writes a file through a stream.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>

namespace sluice::detail {

// Replaces the file. Throws file_error (errc::io_failed) when it cannot be written whole; what was written until then
// is left there.
void write_file(const std::filesystem::path& file, const std::function<void(std::ostream& to)>& write);

}  // namespace sluice::detail

// SPDX-License-Identifier: Apache-2.0
// The files that a process must know when it ends without unwinding its stack: temporary files, which no other process
// will remove, and files mapped into memory, which end the process by SIGBUS when another process shortens them. The
// library only keeps the lists; the signal handlers of a program use them (such as the tool's).
//
// Thread safety: all functions may be called on any thread. Those marked so may be called in a signal handler.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>

namespace sluice::io {

namespace detail {
struct known_file;
struct forget_file {
    void operator()(known_file* entry) const noexcept;
};
using file_entry = std::unique_ptr<known_file, forget_file>;
}  // namespace detail

// During its lifetime the process knows this temporary file. Construct it before the file is created, so that the file
// never exists unknown. A moved-from object knows no file.
class known_temporary {
public:
    known_temporary() noexcept = default;
    // Notes the absolute path. A name that is too long for a file of this system is not noted. Costs O(known files) at
    // most, and a copy of the path.
    explicit known_temporary(const std::filesystem::path& file);

private:
    detail::file_entry entry_;
};

// During its lifetime the process knows that these bytes are those of this file.
class known_mapping {
public:
    known_mapping() noexcept = default;
    // `length` bytes from `begin` on. Costs O(known files) at most, and a copy of the path.
    known_mapping(const void* begin, std::size_t length, const std::filesystem::path& file);

private:
    detail::file_entry entry_;
};

// Removes all known temporary files. For a process that is about to end, or whose output is lost anyway: a thread that
// still writes to such a file loses it. May be called in a signal handler. Costs O(known files), and a call of the
// system for each that is removed.
void remove_known_temporaries() noexcept;

// Returns the path, printable, of the mapped file that holds this address; null when none does. The text is valid as
// long as the mapping. May be called in a signal handler. Costs O(known files).
const char* mapped_file_at(const void* address) noexcept;

}  // namespace sluice::io

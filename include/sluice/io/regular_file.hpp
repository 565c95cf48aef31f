// SPDX-License-Identifier: Apache-2.0
// A regular file that is open for reading, and whether it stays the same meanwhile.
//
// Thread safety: all const member functions may be called at the same time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "sluice/io/file_descriptor.hpp"

namespace sluice::io {

// Which file it is, when it was last written to, and how long it is. Two readings of one path that have the same state
// are of the same contents.
struct file_state {
    std::uint64_t device = 0;      // on which the file is
    std::uint64_t number = 0;      // the inode
    std::int64_t seconds = 0;      // of the last change of its contents, since 1970
    std::int64_t nanoseconds = 0;  // of the same, in addition
    std::size_t bytes = 0;         // how long it is
    friend bool operator==(const file_state&, const file_state&) noexcept = default;
};

// An open file that is read, not mapped: a change of the file is an error and never a signal. Owns the descriptor.
class regular_file {
public:
    // Throws file_error: errc::io_failed when the system refuses to open it, errc::bad_file when it is empty or is no
    // regular file. Nothing is read yet. Does not wait for the writer of a pipe. Costs a few calls of the system.
    explicit regular_file(std::filesystem::path path);

    const std::filesystem::path& path() const noexcept { return path_; }  // as given
    // When it was opened. A file that takes the path's place later has no effect on this one.
    const file_state& state() const noexcept { return state_; }
    std::size_t bytes() const noexcept { return state_.bytes; }    // its length when it was opened
    int descriptor() const noexcept { return descriptor_.get(); }  // valid as long as this exists

    // Fills `to` with what is at `offset`. Blocks. A file that is shorter by now is an error here, and never a SIGBUS
    // as it is of mapped memory. Throws file_error: errc::bad_file when the file ends before that, errc::io_failed.
    // Costs O(bytes).
    void read(std::size_t offset, std::span<std::byte> to) const;
    // All of it. Throws what read and require_unchanged throw, and errc::out_of_memory. Costs O(bytes), and one
    // allocation.
    std::vector<std::byte> read_all() const;

    // Throws file_error: errc::bad_file when the file was written to or shortened since it was opened, so that what was
    // read may be of two different files; errc::io_failed when the system gives no answer. Costs a call of the system.
    void require_unchanged() const;

private:
    file_state state_now() const;

    std::filesystem::path path_;
    file_descriptor descriptor_;
    file_state state_;
};

}  // namespace sluice::io

// SPDX-License-Identifier: Apache-2.0
// A file that appears whole or not at all.
//
// Thread safety: write_at may be called from many threads at once; everything else from one, after them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "sluice/base/file_error.hpp"
#include "sluice/io/file_descriptor.hpp"
#include "sluice/io/process_files.hpp"

namespace sluice::io {

// Writes go to a hidden temporary file in the target's directory; commit() gives it the target's name in one step. The
// destructor of a file that was not committed removes the temporary file and leaves the target unchanged. A process
// that ends without unwinding leaves its temporary file, ".NAME.PID-N.tmp", on the disk, unless it calls
// remove_known_temporaries() (process_files.hpp).
//
// Every failure is a file_error with errc::io_failed that names the target; one that is the system's own, not the
// target's (no space, a broken disk), is a write_error.
class atomic_file {
public:
    // Creates the temporary file, with the permissions of any new file. Throws when that is refused, when the
    // target's name cannot be that of a file here (empty, too long), and when the target exists but is no regular file.
    // A symbolic link at the target is replaced, not followed. Costs a few calls of the system.
    explicit atomic_file(std::filesystem::path target);
    // Neither copied nor moved: threads that write hold its address.
    atomic_file(const atomic_file&) = delete;
    atomic_file& operator=(const atomic_file&) = delete;
    ~atomic_file();

    const std::filesystem::path& target() const noexcept { return target_; }        // the path that was given
    const std::filesystem::path& temporary() const noexcept { return temporary_; }  // where the bytes go until commit()
    bool committed() const noexcept { return committed_; }  // whether commit() has given the file its name

    // Sets the length; bytes not written yet read as zero. Costs a call of the system.
    void resize(std::uint64_t length);
    // Writes all the bytes at `offset`, extending the file where needed. Blocks; the bytes may die afterwards. Costs
    // O(bytes).
    void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
    // Waits until the contents are on the disk, then renames. Once only: a second call throws
    // sluice::error (errc::invalid_argument). If it throws while committed() is false, the target is as it was. Costs a
    // rename and two waits for the disk: for the contents, and for the directory.
    void commit();

private:
    [[noreturn]] void refuse(int cause) const;
    [[noreturn]] void fail(const char* what, int cause, std::uint64_t offset) const;

    std::filesystem::path target_;
    std::filesystem::path temporary_;
    known_temporary known_;
    file_descriptor descriptor_;
    file_descriptor directory_;  // the target's, to be synchronised; none where it cannot be opened
    bool committed_ = false;
};

}  // namespace sluice::io

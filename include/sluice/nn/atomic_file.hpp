// A file that appears whole or not at all.
//
// Thread safety: write_at may be called from many threads at once; everything else from one, after them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "sluice/nn/file_descriptor.hpp"

namespace sluice::nn {

// Writes go to a hidden temporary file in the target's directory; commit() puts it in the target's place in
// one step. Destroyed without a commit, the temporary file is removed and the target is as it was. (A process
// that is killed leaves its temporary file, ".NAME.PID-N.tmp", behind.)
//
// Every failure is a file_error with errc::io_failed that names the target.
class atomic_file {
public:
    // Creates the temporary file, with the permissions of any new file. Throws when that is refused and when
    // the target exists but is no regular file. A symbolic link at the target is replaced, not followed.
    explicit atomic_file(std::filesystem::path target);
    // Neither copied nor moved: threads that write hold its address.
    atomic_file(const atomic_file&) = delete;
    atomic_file& operator=(const atomic_file&) = delete;
    ~atomic_file();

    const std::filesystem::path& target() const noexcept { return target_; }
    const std::filesystem::path& temporary() const noexcept { return temporary_; }
    bool committed() const noexcept { return committed_; }

    // Sets the length; bytes not written yet read as zero.
    void resize(std::uint64_t length);
    // Writes all the bytes at `offset`, extending the file where needed. Blocks; the bytes may die afterwards.
    void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
    // Waits until the contents are on the disk, then renames. Once only: a second call throws
    // sluice::error (errc::invalid_argument). If it throws while committed() is false, the target is as it was.
    void commit();

private:
    [[noreturn]] void fail(const char* what, int cause, std::uint64_t offset) const;

    std::filesystem::path target_;
    std::filesystem::path temporary_;
    file_descriptor descriptor_;
    bool committed_ = false;
};

}  // namespace sluice::nn

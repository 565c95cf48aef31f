// SPDX-License-Identifier: Apache-2.0
#include "sluice/io/atomic_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <limits>
#include <string>
#include <system_error>
#include <utility>

#include "descriptor_io.hpp"
#include "sluice/io/write_error.hpp"

namespace sluice::io {
namespace {

std::filesystem::path directory_of(const std::filesystem::path& target) {
    return target.has_parent_path() ? target.parent_path() : std::filesystem::path(".");
}

// A name that no other writer in this process uses; writers of other processes differ in the process number.
std::filesystem::path temporary_beside(const std::filesystem::path& target) {
    static std::atomic<unsigned> counter{0};
    constexpr std::size_t longest_stem = 200;  // file names end at 255 bytes
    const std::string stem = target.filename().string().substr(0, longest_stem);
    const unsigned number = counter.fetch_add(1, std::memory_order_relaxed);
    return directory_of(target) /
           ("." + stem + "." + std::to_string(::getpid()) + "-" + std::to_string(number) + ".tmp");
}

}  // namespace

atomic_file::atomic_file(std::filesystem::path target) : target_(std::move(target)) {
    if (target_.empty()) throw file_error("''", file_error::no_offset, "create", "the name is empty", errc::io_failed);
    if (!target_.has_filename()) refuse(EISDIR);
    struct stat status{};
    if (::lstat(target_.c_str(), &status) != 0) {
        if (errno != ENOENT) refuse(errno);  // such as a name that is too long: otherwise only the rename would find it
    } else if (!S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode)) {
        if (S_ISDIR(status.st_mode)) refuse(EISDIR);
        throw file_error(target_, file_error::no_offset, "create", "exists and is not a regular file", errc::io_failed);
    }
    do {  // a killed process with the same number may have left a file of this name
        temporary_ = temporary_beside(target_);
        known_ = {};
        known_ = known_temporary(temporary_);
        const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
        descriptor_ = file_descriptor(retried([&] { return ::open(temporary_.c_str(), flags, 0666); }));
    } while (!descriptor_ && errno == EEXIST);
    if (!descriptor_) refuse(errno);
    // Opened now, when a failure still leaves no file. A directory may be writable but not readable: it is then not
    // synchronised.
    directory_ = file_descriptor(::open(directory_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory_ && errno != EACCES) {
        const int cause = errno;
        ::unlink(temporary_.c_str());  // the destructor does not run when the constructor throws
        refuse(cause);
    }
}

atomic_file::~atomic_file() {
    if (!committed_) ::unlink(temporary_.c_str());
}

void atomic_file::resize(std::uint64_t length) {
    if (length > static_cast<std::uint64_t>(std::numeric_limits<off_t>::max())) fail("resize", EFBIG, length);
    if (retried([&] { return ::ftruncate(descriptor_.get(), static_cast<off_t>(length)); }) != 0) {
        fail("resize", errno, length);
    }
}

void atomic_file::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
    const write_outcome came = write_all_at(descriptor_.get(), offset, bytes);
    if (came.cause != 0) fail("write", came.cause, came.offset);
}

void atomic_file::commit() {
    if (!descriptor_) throw error(errc::invalid_argument, "commit() was called before on " + target_.string());
    // After a failed fsync the system may take the lost pages for written, so there is no second attempt.
    const file_descriptor contents = std::move(descriptor_);
    if (retried([&] { return ::fsync(contents.get()); }) != 0) fail("sync", errno, file_error::no_offset);
    if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail("rename", errno, file_error::no_offset);
    committed_ = true;
    known_ = {};

    // The rename itself is safe once the directory is; file systems that cannot do this say EINVAL.
    if (directory_ && retried([&] { return ::fsync(directory_.get()); }) != 0 && errno != EINVAL) {
        fail("sync of the directory, in which the file now has its place", errno, file_error::no_offset);
    }
}

void atomic_file::refuse(int cause) const {
    constexpr std::array of_the_system{ENOSPC, EDQUOT, EIO, ENOMEM, EMFILE, ENFILE};
    const bool another_name_would_do =
        std::find(of_the_system.begin(), of_the_system.end(), cause) == of_the_system.end();
    if (!another_name_would_do) fail("create", cause, file_error::no_offset);
    throw file_error(target_, file_error::no_offset, "create", std::generic_category().message(cause), errc::io_failed);
}

void atomic_file::fail(const char* what, int cause, std::uint64_t offset) const {
    throw write_error(target_, offset, what, std::generic_category().message(cause));
}

}  // namespace sluice::io

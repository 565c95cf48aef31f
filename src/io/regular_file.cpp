// SPDX-License-Identifier: Apache-2.0
#include "sluice/io/regular_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

#include "io/descriptor_io.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/io/file_memory.hpp"

namespace sluice::io {
namespace {

[[noreturn]] void file_failed(const std::filesystem::path& path, std::string_view what, int cause) {
    throw file_error(path, file_error::no_offset, what, std::generic_category().message(cause), errc::io_failed);
}

file_state state_of(int descriptor, const std::filesystem::path& path) {
    struct stat status{};
    if (::fstat(descriptor, &status) != 0) file_failed(path, "stat", errno);
    if (S_ISDIR(status.st_mode)) throw file_error(path, file_error::no_offset, "type", "is a directory");
    if (!S_ISREG(status.st_mode)) throw file_error(path, file_error::no_offset, "type", "is not a regular file");
    return {.device = status.st_dev,
            .number = status.st_ino,
            .seconds = status.st_mtim.tv_sec,
            .nanoseconds = status.st_mtim.tv_nsec,
            .bytes = static_cast<std::size_t>(status.st_size)};
}

}  // namespace

regular_file::regular_file(std::filesystem::path path) : path_(std::move(path)) {
    // O_NONBLOCK: a pipe without a writer must be refused; opening it must not block.
    descriptor_ = file_descriptor(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    if (!descriptor_) file_failed(path_, "open", errno);
    state_ = state_now();
    if (state_.bytes == 0) throw file_error(path_, 0, "size", "the file is empty");
}

file_state regular_file::state_now() const { return state_of(descriptor_.get(), path_); }

void regular_file::read(std::size_t offset, std::span<std::byte> to) const {
    while (!to.empty()) {
        const auto got =
            retried([&] { return ::pread(descriptor_.get(), to.data(), to.size(), static_cast<off_t>(offset)); });
        if (got < 0) file_failed(path_, "read", errno);
        if (got == 0) throw file_error(path_, offset, "size", "the file became shorter while it was read");
        offset += static_cast<std::size_t>(got);
        to = to.subspan(static_cast<std::size_t>(got));
    }
}

std::vector<std::byte> regular_file::read_all() const {
    auto all = vector_for<std::byte>(path_, 0, "contents", bytes());
    read(0, all);
    require_unchanged();
    return all;
}

void regular_file::require_unchanged() const {
    if (!descriptor_ || state_now() == state_) return;
    throw file_error(path_, file_error::no_offset, "contents", "the file was changed while it was read");
}

}  // namespace sluice::io

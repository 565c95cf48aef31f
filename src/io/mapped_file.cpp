// SPDX-License-Identifier: Apache-2.0
#include "sluice/io/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "sluice/base/file_error.hpp"

namespace sluice::io {
namespace {

[[noreturn]] void io_failed(const std::filesystem::path& path, std::string_view what, int cause) {
    throw file_error(path, file_error::no_offset, what, std::generic_category().message(cause), errc::io_failed);
}

// The length of a file that can be mapped.
std::size_t mappable_length(const io::file_descriptor& descriptor, const std::filesystem::path& path) {
    struct stat status{};
    if (::fstat(descriptor.get(), &status) != 0) io_failed(path, "stat", errno);
    if (S_ISDIR(status.st_mode)) throw file_error(path, file_error::no_offset, "type", "is a directory");
    if (!S_ISREG(status.st_mode)) throw file_error(path, file_error::no_offset, "type", "is not a regular file");
    if (status.st_size == 0) throw file_error(path, 0, "size", "the file is empty");
    return static_cast<std::size_t>(status.st_size);
}

}  // namespace

mapped_file::mapped_file(std::filesystem::path path) : path_(std::move(path)) {
    // O_NONBLOCK: a pipe without a writer must be refused; opening it must not block.
    descriptor_ = io::file_descriptor(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    if (!descriptor_) io_failed(path_, "open", errno);
    const std::size_t length = mappable_length(descriptor_, path_);
    mapped_ = state_now();

    void* address = ::mmap(nullptr, length, PROT_READ, MAP_PRIVATE, descriptor_.get(), 0);
    if (address == MAP_FAILED) io_failed(path_, "map", errno);
    mapping_ = {static_cast<const std::byte*>(address), unmap{length}};
    known_ = io::known_mapping(address, length, path_);
    // Only advice: a system that refuses it reads ahead as it always does.
    static_cast<void>(::madvise(address, length, MADV_SEQUENTIAL));
}

std::span<const std::byte> mapped_file::bytes() const noexcept {
    return mapping_ ? std::span(mapping_.get(), mapping_.get_deleter().length) : std::span<const std::byte>();
}

mapped_file::state mapped_file::state_now() const {
    struct stat status{};
    if (::fstat(descriptor_.get(), &status) != 0) io_failed(path_, "stat", errno);
    return {status.st_mtim.tv_sec, status.st_mtim.tv_nsec, status.st_size};
}

void mapped_file::require_unchanged() const {
    if (!descriptor_ || state_now() == mapped_) return;
    throw file_error(path_, file_error::no_offset, "contents", "the file was changed while it was read");
}

void mapped_file::forget(std::size_t offset, std::size_t length) const noexcept {
    const std::size_t size = bytes().size();
    if (offset >= size) return;
    const std::size_t end = offset + std::min(length, size - offset);
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    // The range before this one ended in the first page and had to leave it, so it is dropped with this range.
    const std::size_t first_page = offset / page;
    // Nothing but padding follows the file's end, so its last page counts as whole.
    const std::size_t last_page = end == size ? (end + page - 1) / page : end / page;
    if (first_page >= last_page) return;
    auto* address = const_cast<std::byte*>(mapping_.get()) + first_page * page;
    static_cast<void>(::madvise(address, (last_page - first_page) * page, MADV_DONTNEED));
}

void mapped_file::unmap::operator()(const std::byte* address) const noexcept {
    ::munmap(const_cast<std::byte*>(address), length);
}

}  // namespace sluice::io

// SPDX-License-Identifier: Apache-2.0
#include "sluice/io/mapped_file.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "sluice/base/file_error.hpp"

namespace sluice::io {

mapped_file::mapped_file(std::filesystem::path path) : file_(std::move(path)) {
    const std::size_t length = file_.bytes();
    void* address = ::mmap(nullptr, length, PROT_READ, MAP_PRIVATE, file_.descriptor(), 0);
    if (address == MAP_FAILED) {
        throw file_error(this->path(), file_error::no_offset, "map", std::generic_category().message(errno),
                         errc::io_failed);
    }
    mapping_ = {static_cast<const std::byte*>(address), unmap{length}};
    known_ = io::known_mapping(address, length, this->path());
    // Only advice: a system that refuses it reads ahead as it always does.
    static_cast<void>(::madvise(address, length, MADV_SEQUENTIAL));
}

std::span<const std::byte> mapped_file::bytes() const noexcept {
    return mapping_ ? std::span(mapping_.get(), mapping_.get_deleter().length) : std::span<const std::byte>();
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

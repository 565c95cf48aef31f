// SPDX-License-Identifier: Apache-2.0
#include "sluice/io/npy_part_writer.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "io/descriptor_io.hpp"
#include "sluice/io/write_error.hpp"

namespace sluice::io {

npy_part_writer::npy_part_writer(npy_part part) : part_(std::move(part)) {
    // Not created: where another machine's file is not visible, no other file may take its place. Not opened for
    // reading either: with pages that were read, NFS may write back more than was written here.
    const int flags = O_WRONLY | O_CLOEXEC | O_NOFOLLOW;
    descriptor_ = io::file_descriptor(io::retried([&] { return ::open(part_.file.c_str(), flags); }));
    if (!descriptor_) {
        const std::string why = std::generic_category().message(errno);
        throw file_error(part_.file, file_error::no_offset, "open", why, errc::io_failed);
    }
    struct stat status{};
    if (::fstat(descriptor_.get(), &status) != 0) fail("stat", errno, file_error::no_offset);
    const std::uint64_t wanted = part_.data_offset + std::uint64_t{part_.rows} * part_.row_bytes;
    if (!S_ISREG(status.st_mode) || static_cast<std::uint64_t>(status.st_size) != wanted) {
        throw file_error(part_.file, file_error::no_offset, "size",
                         "is not the file of " + std::to_string(wanted) + " bytes that is being written",
                         errc::io_failed);
    }
}

void npy_part_writer::write_rows(std::size_t first_row, std::span<const float> values) {
    const auto bytes = std::as_bytes(values);
    if (bytes.empty()) return;
    if (part_.row_bytes == 0 || bytes.size() % part_.row_bytes != 0) {
        throw error(errc::shape_mismatch, std::to_string(bytes.size()) + " bytes are not whole rows of " +
                                              std::to_string(part_.row_bytes) + " in " + part_.file.string());
    }
    const std::size_t count = bytes.size() / part_.row_bytes;
    if (first_row > part_.rows || count > part_.rows - first_row) {
        throw error(errc::invalid_argument, part_.file.string() + " has " + std::to_string(part_.rows) + " rows, not " +
                                                std::to_string(count) + " from row " + std::to_string(first_row));
    }
    const io::write_outcome came =
        io::write_all_at(descriptor_.get(), part_.data_offset + std::uint64_t{first_row} * part_.row_bytes, bytes);
    if (came.cause != 0) fail("write", came.cause, came.offset);
}

void npy_part_writer::finish() {
    if (io::retried([&] { return ::fsync(descriptor_.get()); }) != 0) fail("sync", errno, file_error::no_offset);
}

void npy_part_writer::fail(const char* what, int cause, std::uint64_t offset) const {
    throw io::write_error(part_.file, offset, what, std::generic_category().message(cause));
}

}  // namespace sluice::io

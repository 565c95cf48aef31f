// SPDX-License-Identifier: Apache-2.0
// A regular file mapped into memory for reading.
//
// Thread safety: all const member functions may be called at the same time.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

#include "sluice/base/file_error.hpp"
#include "sluice/io/process_files.hpp"
#include "sluice/io/regular_file.hpp"

namespace sluice::io {

// Owns the mapping; the spans that it returns are valid until it is destroyed, and survive a move of it. A moved-from
// mapped_file is empty. Map files that no process writes to. When a process shortens the file meanwhile, reading the
// lost pages raises SIGBUS, as with any mapping; a program's handler can name the file (io/process_files.hpp). Other
// changes are found by require_unchanged(). A process that must outlive this reads the file (io/regular_file.hpp).
class mapped_file {
public:
    // Maps the whole file. Throws file_error: errc::io_failed when the system refuses to open or map it,
    // errc::bad_file when it is empty or is no regular file. Nothing is read yet. Costs a few calls of the system,
    // whatever the size.
    explicit mapped_file(std::filesystem::path path);

    // The path of the mapped file. Costs O(1).
    const std::filesystem::path& path() const noexcept { return file_.path(); }
    // The contents; empty after a move. Costs O(1).
    std::span<const std::byte> bytes() const noexcept;

    // Advises the system that these bytes were consumed: the pages that end inside the range leave the resident
    // set, so ranges that follow each other drop every page, however small they are. All bytes may still be read;
    // that fetches them from the file again. Ranges past the end are cut. Only advice: never fails. Costs a call of the
    // system.
    void forget(std::size_t offset, std::size_t length) const noexcept;

    // Throws file_error (errc::bad_file) when the file was written to or shortened since it was mapped, so that what
    // was read may be of two different files; errc::io_failed when the system gives no answer. Costs a call of the
    // system.
    void require_unchanged() const { file_.require_unchanged(); }

private:
    struct unmap {
        // No default initialiser: it would keep unique_ptr from default-constructing a nested class.
        std::size_t length;
        void operator()(const std::byte* address) const noexcept;
    };

    regular_file file_;
    std::unique_ptr<const std::byte[], unmap> mapping_;
    io::known_mapping known_;
};

}  // namespace sluice::io

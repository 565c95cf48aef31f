// A regular file mapped into memory for reading.
//
// Thread safety: all const member functions may be called at the same time.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace sluice::nn {

// Owns the mapping; the spans it gives out are valid until it is destroyed, and survive a move of it.
// Moved from, it is empty. If another process shortens the file meanwhile, reading the lost pages raises
// SIGBUS, as with any mapping: map files that nobody truncates.
class mapped_file {
public:
    // Maps the whole file. Throws file_error: errc::io_failed when the system refuses to open or map it,
    // errc::bad_file when it is empty or is no regular file. Nothing is read yet.
    explicit mapped_file(std::filesystem::path path);

    const std::filesystem::path& path() const noexcept { return path_; }
    std::span<const std::byte> bytes() const noexcept;

    // Tells the system that these bytes were consumed: the pages that end inside the range leave the resident
    // set, so ranges that follow each other drop every page, however small they are. All bytes may still be read;
    // that fetches them from the file again. Ranges past the end are cut. Only advice: never fails.
    void forget(std::size_t offset, std::size_t length) const noexcept;

private:
    struct unmap {
        // No default initialiser: it would keep unique_ptr from default-constructing a nested class.
        std::size_t length;
        void operator()(const std::byte* address) const noexcept;
    };

    std::filesystem::path path_;
    std::unique_ptr<const std::byte[], unmap> mapping_;
};

}  // namespace sluice::nn

// SPDX-License-Identifier: Apache-2.0
// Reader of NumPy's .npz format: a zip archive of .npy arrays, as numpy.savez and numpy.savez_compressed write it.
//
//     const io::npz_file file("sample.npz");
//     const io::npz_array tokens = file.read("tokens");
//     std::span<const std::byte> elements = tokens.view().data();
//
// Read: members that are stored or deflated, also with the fields of zip64. The directory is checked when a file is
// opened, a member when it is read: its header, its size, its CRC and its array. What does not fit is refused with a
// file_error that names the file (and the member, as in "sample.npz:tokens"), the byte offset and the field: other
// compression, encryption, archives of several volumes, members that overlap, two members of one name, bytes that no
// member claims, sizes that are not those of the data.
//
// Deflated members need zlib when Sluice is built; zlib_supported says whether it was there.
//
// Thread safety: immutable once constructed.
//
// All members take constant time, but for these: a search and the constructors are linear in the number of members, and
// read in the bytes of the member, as they are in the file and when they are inflated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/base/file_error.hpp"
#include "sluice/io/mapped_file.hpp"
#include "sluice/io/npy.hpp"

namespace sluice::io {

bool zlib_supported() noexcept;  // whether Sluice was built with zlib

// A few bytes can inflate to a thousand times as many: the limit bounds what a hostile file can make a program
// allocate.
struct npz_limits {
    std::uint64_t inflated_bytes = std::uint64_t{1} << 30;  // of one member; those that are only stored need no memory
};

// The array of a member. Owns the elements when they were deflated; else they are in the file, which must outlive it.
class npz_array {
public:
    // Of bytes that were inflated, or of a view of bytes that the file has. Throws file_error, which names `label`,
    // where the bytes are no array.
    npz_array(std::vector<std::byte> inflated, std::filesystem::path label)
        : inflated_(std::move(inflated)), view_(inflated_, std::move(label)) {}
    explicit npz_array(npy_view stored) : view_(std::move(stored)) {}
    npz_array(npz_array&&) noexcept = default;  // the elements stay where they are; a copy's would not
    npz_array& operator=(npz_array&&) noexcept = default;

    const npy_view& view() const noexcept { return view_; }  // valid while this lives

private:
    std::vector<std::byte> inflated_;
    npy_view view_;
};

// An entry of the archive's directory.
struct npz_member {
    std::string name;             // without the ending .npy
    std::uint64_t header_offset;  // in the file
    std::uint64_t data_offset;    // of its data, in the file
    std::uint64_t stored_bytes;   // in the file: fewer than `bytes` where it is deflated
    std::uint64_t bytes;          // of the .npy file in it
    std::uint32_t crc;            // CRC-32 of the .npy file
    bool is_deflated;             // else it is stored as it is
};

// An archive that is already in memory. Does not own the bytes: they must outlive it, and the arrays that are read.
class npz_view {
public:
    // Parses and checks the directory of `file`, which holds the whole file. Errors name `label` in place of a path.
    npz_view(std::span<const std::byte> file, std::filesystem::path label, npz_limits limits = {});

    const std::filesystem::path& path() const noexcept { return path_; }  // the path or label that errors name
    // The arrays, in the order of the directory. Members that do not end in .npy are none, and are left out.
    const std::vector<npz_member>& members() const noexcept { return members_; }
    // Null when there is no such array.
    const npz_member* find(std::string_view name) const noexcept;
    // Inflates the member where it is deflated, and checks all of it. Throws file_error; errc::out_of_memory when the
    // host does not have the memory; error (errc::unsupported) for a deflated one when Sluice was built without zlib.
    npz_array read(const npz_member& member) const;
    // The same by its name. Throws file_error that lists the names when there is no such array.
    npz_array read(std::string_view name) const;

private:
    std::span<const std::byte> file_;
    std::filesystem::path path_;
    npz_limits limits_;
    std::vector<npz_member> members_;
};

// The same over a file on disk, which it keeps mapped.
class npz_file {
public:
    // Maps the file, parses and checks its directory. Throws file_error.
    explicit npz_file(std::filesystem::path path, npz_limits limits = {})
        : file_(std::move(path)), view_(file_.bytes(), file_.path(), limits) {}

    const npz_view& view() const noexcept { return view_; }                   // valid while this lives
    const mapped_file& file() const noexcept { return file_; }                // the mapping
    npz_array read(std::string_view name) const { return view_.read(name); }  // as npz_view::read

private:
    mapped_file file_;
    npz_view view_;
};

}  // namespace sluice::io

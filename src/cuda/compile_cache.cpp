// SPDX-License-Identifier: Apache-2.0
#include "cuda/compile_cache.hpp"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <system_error>

#include "sluice/base/file_error.hpp"
#include "sluice/io/atomic_file.hpp"

namespace sluice::cuda {
namespace {

// A file: this header, the key, the module.
struct entry_header {
    std::array<char, 8> mark;
    std::uint64_t key_bytes;
    std::uint64_t module_bytes;
    std::uint64_t checksum;  // of the two sizes, the key and the module
};
constexpr std::array<char, 8> entry_mark = {'s', 'l', 'u', 'i', 'c', 'e', 'm', '1'};

// FNV-1a, with 64 bits. One changed byte always changes it.
constexpr std::uint64_t first_hash = 0xcbf29ce484222325;
std::uint64_t hash(const void* data, std::size_t bytes, std::uint64_t from = first_hash) noexcept {
    const auto* const begin = static_cast<const unsigned char*>(data);
    for (std::size_t i = 0; i < bytes; ++i) from = (from ^ begin[i]) * 0x100000001b3;
    return from;
}

std::uint64_t checksum_of(std::string_view key, std::span<const std::byte> module) noexcept {
    const std::uint64_t sizes[] = {key.size(), module.size()};
    return hash(module.data(), module.size(), hash(key.data(), key.size(), hash(sizes, sizeof(sizes))));
}

std::vector<std::byte> contents_of(const std::filesystem::path& file) {
    constexpr std::uintmax_t largest = std::uintmax_t{1} << 30;
    std::error_code failure;
    if (!std::filesystem::is_regular_file(file, failure)) return {};  // a pipe would block
    const std::uintmax_t size = std::filesystem::file_size(file, failure);
    std::ifstream from(file, std::ios::binary);
    if (failure || !from || size > largest) return {};
    std::vector<std::byte> bytes(size);
    from.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size));
    if (static_cast<std::uintmax_t>(from.gcount()) != size) return {};
    return bytes;
}

std::span<const std::byte> bytes_of(std::string_view text) {
    return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

}  // namespace

std::filesystem::path compile_cache::default_folder() {
    // A relative path in XDG_CACHE_HOME is invalid, and is ignored.
    if (const char* const caches = std::getenv("XDG_CACHE_HOME"); caches != nullptr && caches[0] == '/')
        return std::filesystem::path(caches) / "sluice";
    if (const char* const home = std::getenv("HOME"); home != nullptr && home[0] == '/')
        return std::filesystem::path(home) / ".cache" / "sluice";
    return {};
}

std::filesystem::path compile_cache::file_of(std::string_view key) const {
    constexpr char digits[] = "0123456789abcdef";
    std::string name = "module-";
    for (std::uint64_t number : {hash(key.data(), key.size()), hash(key.data(), key.size(), ~first_hash)}) {
        for (int i = 0; i < 16; ++i, number >>= 4) name += digits[number & 15];
    }
    return folder_ / name;
}

std::optional<std::vector<std::byte>> compile_cache::find(std::string_view key) const {
    if (folder_.empty()) return std::nullopt;
    std::vector<std::byte> file = contents_of(file_of(key));
    entry_header header{};
    if (file.size() < sizeof(header)) return std::nullopt;
    std::memcpy(&header, file.data(), sizeof(header));
    const std::size_t rest = file.size() - sizeof(header);
    if (header.mark != entry_mark || header.key_bytes != key.size() || header.key_bytes > rest ||
        header.module_bytes != rest - header.key_bytes)
        return std::nullopt;
    const std::span<const std::byte> all(file);
    const auto module = all.last(static_cast<std::size_t>(header.module_bytes));
    if (std::memcmp(file.data() + sizeof(header), key.data(), key.size()) != 0 ||
        header.checksum != checksum_of(key, module))
        return std::nullopt;
    return std::vector<std::byte>(module.begin(), module.end());
}

bool compile_cache::keep(std::string_view key, std::span<const std::byte> module) const {
    if (folder_.empty()) return false;
    try {
        if (std::filesystem::create_directories(folder_))
            std::filesystem::permissions(folder_, std::filesystem::perms::owner_all);
        const entry_header header{entry_mark, key.size(), module.size(), checksum_of(key, module)};
        io::atomic_file file(file_of(key));
        file.write_at(0, std::as_bytes(std::span(&header, 1)));
        file.write_at(sizeof(header), bytes_of(key));
        file.write_at(sizeof(header) + key.size(), module);
        file.commit();
        return true;
    } catch (const std::filesystem::filesystem_error&) {
    } catch (const file_error&) {
    }
    return false;
}

}  // namespace sluice::cuda

#include "sluice/runtime/transfer.hpp"

#include <array>
#include <cstring>

#include "runtime/staging_pool.hpp"
#include "sluice/runtime/download_to.hpp"

namespace sluice::detail {
namespace {

// Up to here an upload goes through a pinned block of its own: this thread copies (80 us at most), and the call returns
// without waiting for anybody. Beyond, it is worth several threads and several chunks.
constexpr std::size_t largest_block_upload_bytes = std::size_t{1} << 20;

void upload_block(stream& on, const command_info& info, storage& to, const void* from, std::size_t bytes) {
    const storage_ref staging = on.allocate_host(bytes, info);
    std::memcpy(staging->data(), from, bytes);
    copy_bytes(on, info, to, *staging, bytes, copy_direction::host_to_device);
}

}  // namespace

void require_upload_size(std::size_t size, const shape& shape, const source_location& where) {
    if (size == shape.size()) return;
    throw error(errc::shape_mismatch, std::to_string(size) + " values do not fill shape " + to_string(shape),
                {"upload", "", where});
}

void upload_bytes(stream& on, storage& to, const void* from, std::size_t bytes, std::shared_ptr<const void> owner,
                  const source_location& where) {
    if (bytes == 0) return;
    const command_info info{"upload", {}, where};
    device& there = on.owner();
    // A graph keeps what it uploads, owned or in a block of its own.
    if (on.queue().recorder() != nullptr && (owner == nullptr || !there.shares_host_memory()))
        return upload_block(on, info, to, from, bytes);
    if (there.shares_host_memory()) {
        // Memory that nobody keeps for us is read now.
        if (owner == nullptr) return upload_block(on, info, to, from, bytes);
    } else {
        if (bytes <= largest_block_upload_bytes) return upload_block(on, info, to, from, bytes);
        const bool is_direct = owner != nullptr && there.interpreter().is_pinned(from, bytes);
        if (!is_direct && there.staging().upload(on, info, to, from, bytes)) return;
    }
    const std::array accesses{memory_access{&to, access_mode::write}};
    const bool is_kept = owner != nullptr;
    const ticket number = on.copy({info.name, accesses, where},
                                  {to.data(), from, bytes, copy_direction::host_to_device, std::move(owner)});
    if (!is_kept) on.await(number, there.default_wait_mode());
}

void copy_bytes(stream& on, const command_info& info, storage& to, storage& from, std::size_t bytes,
                copy_direction direction) {
    const std::array accesses{memory_access{&from, access_mode::read}, memory_access{&to, access_mode::write}};
    on.copy({info.name, accesses, info.where}, {to.data(), from.data(), bytes, direction, {}});
}

void copy_to_host(stream& on, const command_info& info, storage& to, std::size_t at, storage& from, std::size_t bytes) {
    const std::array accesses{memory_access{&from, access_mode::read}, memory_access{&to, access_mode::write}};
    auto* const there = static_cast<std::byte*>(to.data()) + at;
    on.copy({info.name, accesses, info.where}, {there, from.data(), bytes, copy_direction::device_to_host, {}});
}

void require_download_size(std::size_t room, std::size_t size, const source_location& where) {
    if (room == size) return;
    throw error(errc::shape_mismatch,
                "a tensor of " + std::to_string(size) + " elements does not fill room for " + std::to_string(room),
                {"download", "", where});
}

void require_download_owner(const std::shared_ptr<const void>& owner, std::size_t size, const source_location& where) {
    if (owner != nullptr || size == 0) return;
    throw error(errc::invalid_argument, "nobody keeps the memory to download to until it is there",
                {"download", "", where});
}

storage_ref download_bytes(stream& on, void* to, storage& from, std::size_t bytes, std::shared_ptr<const void> owner,
                           const source_location& where) {
    // The memory is the user's and has no history, so something of ours has it: who is given the data comes after the
    // copy, on other streams too, and is told of a failure.
    storage_ref landed = on.allocate_host(0, {"download", {}, where});
    const std::array accesses{memory_access{&from, access_mode::read}, memory_access{landed.get(), access_mode::write}};
    on.copy({"download", accesses, where}, {to, from.data(), bytes, copy_direction::device_to_host, std::move(owner)});
    return landed;
}

void zero_bytes(stream& on, storage& to, std::size_t bytes, const source_location& where) {
    if (bytes == 0) return;
    const std::array accesses{memory_access{&to, access_mode::write}};
    on.fill({"zeros", accesses, where}, {to.data(), 0, bytes});
}

}  // namespace sluice::detail

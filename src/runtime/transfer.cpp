#include "sluice/runtime/transfer.hpp"

#include <array>
#include <cstring>

#include "sluice/runtime/download_to.hpp"

namespace sluice::detail {
namespace {

// Up to here an upload goes through a pinned block of ours: one host copy, and the call returns at once.
// Beyond, pinning as much again would cost more than the driver's own staging.
constexpr std::size_t largest_staged_upload_bytes = std::size_t{8} << 20;

}  // namespace

void require_upload_size(std::size_t size, const shape& shape, const source_location& where) {
    if (size == shape.size()) return;
    throw error(errc::shape_mismatch, std::to_string(size) + " values do not fill shape " + to_string(shape),
                {"upload", "", where});
}

void upload_bytes(stream& on, storage& to, const void* from, std::size_t bytes, std::shared_ptr<const void> owner,
                  const source_location& where) {
    if (bytes == 0) return;
    // Memory that nobody keeps for us is read now. (A GPU's driver does that by itself, for large ones.)
    const bool shares_host_memory = on.owner().shares_host_memory();
    if (shares_host_memory ? owner == nullptr : bytes <= largest_staged_upload_bytes) {
        const storage_ref staging = on.allocate_host(bytes, {"upload", {}, where});
        std::memcpy(staging->data(), from, bytes);
        copy_bytes(on, {"upload", {}, where}, to, *staging, bytes, copy_direction::host_to_device);
        return;
    }
    const std::array accesses{memory_access{&to, access_mode::write}};
    on.copy({"upload", accesses, where}, {to.data(), from, bytes, copy_direction::host_to_device, std::move(owner)});
}

void copy_bytes(stream& on, const command_info& info, storage& to, storage& from, std::size_t bytes,
                copy_direction direction) {
    const std::array accesses{memory_access{&from, access_mode::read}, memory_access{&to, access_mode::write}};
    on.copy({info.name, accesses, info.where}, {to.data(), from.data(), bytes, direction, {}});
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

void download_bytes(stream& on, void* to, storage& from, std::size_t bytes, std::shared_ptr<const void> owner,
                    const source_location& where) {
    const std::array accesses{memory_access{&from, access_mode::read}};
    on.copy({"download", accesses, where}, {to, from.data(), bytes, copy_direction::device_to_host, std::move(owner)});
}

void zero_bytes(stream& on, storage& to, std::size_t bytes, const source_location& where) {
    if (bytes == 0) return;
    const std::array accesses{memory_access{&to, access_mode::write}};
    on.fill({"zeros", accesses, where}, {to.data(), 0, bytes});
}

}  // namespace sluice::detail

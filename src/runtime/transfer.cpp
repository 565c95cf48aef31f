// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/transfer.hpp"

#include <array>
#include <string>
#include <utility>

#include "runtime/staging_pool.hpp"
#include "runtime/streaming_copy.hpp"
#include "runtime/upload_rows.hpp"
#include "sluice/runtime/download_to.hpp"
#include "sluice/runtime/row_copy.hpp"

namespace sluice::detail {
namespace {

// Up to the larger size an upload goes through its own pinned block, and the call returns without waiting for the
// device. Up to the smaller size this thread copies it (25 us) and the copy is one command; above that, it is split
// into parts. Above the larger size it goes through chunks, which uploads share.
constexpr std::size_t largest_whole_upload_bytes = std::size_t{512} << 10;
// (Pinned memory that is kept is copied from where it is, if it is larger than this.)
constexpr std::size_t largest_copied_pinned_bytes = std::size_t{256} << 10;
constexpr std::size_t largest_block_upload_bytes = std::size_t{4} << 20;

// False: no pinned memory is available, and nothing was done.
bool upload_block_in_parts(stream on, const command_info& info, storage& to, const copy_command& what) {
    storage_ref staging;
    try {
        staging = on.allocate_host(copied_bytes(what), info);
    } catch (const out_of_memory&) {
        return false;
    }
    on.owner().staging().upload_through(*staging, on, info, to, what);
    return true;
}

void upload_block(stream on, const command_info& info, storage& to, const copy_command& what) {
    const storage_ref staging = on.allocate_host(copied_bytes(what), info);
    copy_command packed{staging->data(), what.source, what.bytes, copy_direction::host_to_device, {}, {}, what.rows};
    packed.rows.destination_pitch = what.bytes;
    if (packed.rows.count == 1 && !on.owner().shares_host_memory()) {
        streaming_copy(staging->data(), what.source, what.bytes);
    } else {
        copy_on_host(packed);
    }
    const std::array accesses{memory_access{staging.get(), access_mode::read}, memory_access{&to, access_mode::write}};
    copy_command copy{what.destination, staging->data(), what.bytes, copy_direction::host_to_device, {}, {}, what.rows};
    copy.rows.source_pitch = what.bytes;
    on.copy({info.name, accesses, info.location}, copy);
}

}  // namespace

void upload_rows(stream on, const command_info& info, storage& to, const copy_command& what) {
    device& there = on.owner();
    const bool is_kept = what.host_owner != nullptr;
    // A graph keeps the data that it uploads: through its owner, or in a block of its own.
    if (on.queue().recorder() != nullptr && (!is_kept || !there.shares_host_memory()))
        return upload_block(on, info, to, what);
    if (there.shares_host_memory()) {
        // Memory without an owner is read now.
        if (!is_kept) return upload_block(on, info, to, what);
    } else {
        const std::size_t bytes = copied_bytes(what);
        const bool is_direct = is_kept && bytes > largest_copied_pinned_bytes &&
                               there.interpreter().is_pinned(what.source, source_reach(what));
        if (!is_direct && bytes <= largest_whole_upload_bytes) return upload_block(on, info, to, what);
        if (!is_direct && bytes <= largest_block_upload_bytes && upload_block_in_parts(on, info, to, what)) return;
        if (!is_direct && there.staging().upload(on, info, to, what)) return;
    }
    const std::array accesses{memory_access{&to, access_mode::write}};
    const ticket number = on.copy({info.name, accesses, info.location}, what);
    if (!is_kept) on.wait(number, there.default_wait_mode());
}

void require_upload_size(std::size_t size, const shape& shape, const source_location& location) {
    if (size == shape.size()) return;
    throw error(errc::shape_mismatch, std::to_string(size) + " values do not fill shape " + to_string(shape),
                {"upload", "", location});
}

void upload_bytes(stream on, storage& to, const void* from, std::size_t bytes, std::shared_ptr<const void> owner,
                  const source_location& location) {
    if (bytes == 0) return;
    upload_rows(on, {"upload", {}, location}, to,
                {to.data(), from, bytes, copy_direction::host_to_device, std::move(owner)});
}

void copy_bytes(stream on, const command_info& info, storage& to, storage& from, std::size_t bytes,
                copy_direction direction) {
    const std::array accesses{memory_access{&from, access_mode::read}, memory_access{&to, access_mode::write}};
    on.copy({info.name, accesses, info.location}, {to.data(), from.data(), bytes, direction, {}});
}

void copy_to_host(stream on, const command_info& info, storage& to, std::size_t at, storage& from, std::size_t bytes) {
    const std::array accesses{memory_access{&from, access_mode::read}, memory_access{&to, access_mode::write}};
    auto* const there = static_cast<std::byte*>(to.data()) + at;
    on.copy({info.name, accesses, info.location}, {there, from.data(), bytes, copy_direction::device_to_host, {}});
}

void require_download_size(std::size_t room, std::size_t size, const source_location& location) {
    if (room == size) return;
    throw error(errc::shape_mismatch,
                "a tensor of " + std::to_string(size) + " elements does not fit exactly into memory for " +
                    std::to_string(room),
                {"download", "", location});
}

void require_download_owner(const std::shared_ptr<const void>& owner, std::size_t size,
                            const source_location& location) {
    if (owner != nullptr || size == 0) return;
    throw error(errc::invalid_argument,
                "the memory to download to needs an owner that keeps it until the copy is complete",
                {"download", "", location});
}

storage_ref download_bytes(stream on, void* to, storage& from, std::size_t bytes, std::shared_ptr<const void> owner,
                           const source_location& location) {
    // The memory belongs to the user and has no history, so a storage of our own has one. Commands that use the data
    // come after the copy, on other streams too, and receive its failure.
    storage_ref landed = on.allocate_host(0, {"download", {}, location});
    const std::array accesses{memory_access{&from, access_mode::read}, memory_access{landed.get(), access_mode::write}};
    on.copy({"download", accesses, location},
            {to, from.data(), bytes, copy_direction::device_to_host, std::move(owner)});
    return landed;
}

void zero_bytes(stream on, storage& to, std::size_t bytes, const source_location& location) {
    if (bytes == 0) return;
    const std::array accesses{memory_access{&to, access_mode::write}};
    on.fill({"zeros", accesses, location}, {to.data(), 0, bytes});
}

}  // namespace sluice::detail

// SPDX-License-Identifier: Apache-2.0
// buffer<T>: owns elements in the memory of one device. host_buffer<T>: owns elements in host memory that the device
// accesses at full speed (pinned, for a GPU).
//
// Both are move-only and empty after a move. Dropping one at any moment is safe and never blocks: the memory is reused
// after its last use, in stream order. Contents are undefined until a command writes them.
//
// All members take constant time, but for a constructor that allocates, which takes what memory_pool::allocate takes,
// and for read() and write() of host_buffer, which take until the commands that use it are complete.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

#include "sluice/base/error.hpp"
#include "sluice/runtime/storage.hpp"
#include "sluice/runtime/stream.hpp"

namespace sluice {

namespace detail {
// Throws out_of_memory when the product overflows: no device has that much.
std::size_t bytes_for(std::size_t count, std::size_t element_bytes, const device& on, const command_info& info);
}  // namespace detail

template <typename T>
class buffer {
    static_assert(std::is_trivially_copyable_v<T>, "device memory holds trivially copyable elements");

public:
    using value_type = T;  // of the elements

    buffer() = default;
    // Room for `size` elements, for commands on `user`. Throws out_of_memory.
    buffer(stream user, std::size_t size, const command_info& info = {"allocate"})
        : storage_(user.allocate(detail::bytes_for(size, sizeof(T), user.owner(), info), info)), size_(size) {}
    // Elements in memory that has other references too. For the runtime, which ensures that only one owner writes.
    buffer(storage_ref memory, std::size_t size) noexcept : storage_(std::move(memory)), size_(size) {}
    buffer(buffer&& other) noexcept : storage_(std::move(other.storage_)), size_(std::exchange(other.size_, 0)) {}
    buffer& operator=(buffer&& other) noexcept {
        storage_ = std::move(other.storage_);
        size_ = std::exchange(other.size_, 0);
        return *this;
    }
    buffer(const buffer&) = delete;  // copies of device memory are commands: say copy(...)
    buffer& operator=(const buffer&) = delete;
    ~buffer() = default;

    std::size_t size() const noexcept { return size_; }                    // in elements
    std::size_t size_bytes() const noexcept { return size_ * sizeof(T); }  // of all elements

    // For commands: the storage to name as read or written, and the device address. Only commands that name the
    // storage may use the address. Both are null after a move and after default construction.
    storage* memory() const noexcept { return storage_.get(); }
    // The device address, for commands that name the storage; null after a move.
    T* device_data() const noexcept { return storage_ ? static_cast<T*>(storage_->data()) : nullptr; }

private:
    storage_ref storage_;
    std::size_t size_ = 0;
};

// Owns elements in host memory that the device accesses at full speed. See the top of this file.
template <typename T>
class host_buffer {
    static_assert(std::is_trivially_copyable_v<T>, "device memory holds trivially copyable elements");

public:
    using value_type = T;  // of the elements

    host_buffer() = default;
    // Room for `size` elements that commands of `user`'s device may copy from and to. The host may write it
    // immediately. Throws out_of_memory.
    host_buffer(stream user, std::size_t size, const command_info& info = {"allocate"})
        : storage_(user.allocate_host(detail::bytes_for(size, sizeof(T), user.owner(), info), info)), size_(size) {}
    // As for buffer.
    host_buffer(storage_ref memory, std::size_t size) noexcept : storage_(std::move(memory)), size_(size) {}
    host_buffer(host_buffer&& other) noexcept
        : storage_(std::move(other.storage_)), size_(std::exchange(other.size_, 0)) {}
    host_buffer& operator=(host_buffer&& other) noexcept {
        storage_ = std::move(other.storage_);
        size_ = std::exchange(other.size_, 0);
        return *this;
    }
    host_buffer(const host_buffer&) = delete;  // a copy would be expensive: copy the elements explicitly
    host_buffer& operator=(const host_buffer&) = delete;
    ~host_buffer() = default;

    std::size_t size() const noexcept { return size_; }                    // in elements
    std::size_t size_bytes() const noexcept { return size_ * sizeof(T); }  // of all elements
    storage* memory() const noexcept { return storage_.get(); }            // for the accesses of a command

    // The elements, for the host. write() blocks until no command uses the buffer, read() until no command writes it.
    // Both return immediately when that is already true. Both throw the first cause when the device has faulted, and
    // errc::invalid_argument on a thread that must not wait for it (docs/errors.md).
    std::span<T> write() {
        if (storage_) {
            storage_->await_all_uses();
            storage_->on_host_access(access_mode::write);
        }
        return {device_data(), size_};
    }
    // The elements, to be read. Blocks until no command writes the buffer.
    std::span<const T> read() const {
        if (storage_) {
            storage_->await_last_write();
            storage_->on_host_access(access_mode::read);
        }
        return {device_data(), size_};
    }
    // The address, for commands that name the storage.
    T* device_data() const noexcept { return storage_ ? static_cast<T*>(storage_->data()) : nullptr; }

private:
    storage_ref storage_;
    std::size_t size_ = 0;
};

}  // namespace sluice

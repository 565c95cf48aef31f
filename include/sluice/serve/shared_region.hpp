// SPDX-License-Identifier: Apache-2.0
// shared_region: memory that a client shares with the server, and where tensors are read from and written to: a part of
// POSIX shared memory (system_region), or memory on a GPU (cuda_region).
//
// The server does not map POSIX shared memory, because its owner may make it smaller at any time, and an access to what
// is gone would end the process. It copies with pread and pwrite, which fail instead.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "sluice/serve/gpu_memory.hpp"

namespace sluice::serve {

// Of which of Triton's extensions a region is.
enum class region_kind {
    system,  // system_shared_memory
    cuda,    // cuda_shared_memory
};

// A region that is removed stays until the requests that use it are answered.
class shared_region {
public:
    shared_region(const shared_region&) = delete;  // it owns what is open
    shared_region& operator=(const shared_region&) = delete;
    virtual ~shared_region() = default;

    region_kind kind() const noexcept { return kind_; }         // of whose memory it is
    const std::string& name() const noexcept { return name_; }  // the name under which it is registered
    std::uint64_t bytes() const noexcept { return bytes_; }     // the length of the region

    // Throws refusal (bad_request) for bytes that are not in the region. Costs O(1).
    void require_part(std::uint64_t offset, std::uint64_t bytes) const;
    // Copies from `offset` of the region on, to the host. Throws refusal (bad_request) for bytes that are not in the
    // region, and when the memory cannot be read any more; error when a GPU fails. Costs O(bytes).
    void read(std::uint64_t offset, std::span<std::byte> to) const;
    // Copies from the host to the region, from `offset` on. Throws as read(), and where the memory may not be written.
    // Costs O(bytes).
    void write(std::uint64_t offset, std::span<const std::byte> from) const;

protected:
    // Throws refusal (bad_request) for what is no name of a region, and for no bytes.
    shared_region(region_kind kind, std::string name, std::uint64_t bytes);

private:
    virtual void read_part(std::uint64_t offset, std::span<std::byte> to) const = 0;  // bytes that are in the region
    virtual void write_part(std::uint64_t offset, std::span<const std::byte> from) const = 0;

    const region_kind kind_;
    const std::string name_;
    const std::uint64_t bytes_;
};

// A part of one object of POSIX shared memory.
class system_region final : public shared_region {
public:
    // Opens the object. `key`: its name as shm_open takes it, without '/' but at its beginning. Throws refusal
    // (bad_request). Costs a few calls of the system, whatever the size.
    system_region(std::string name, std::string key, std::uint64_t offset, std::uint64_t bytes);
    ~system_region() override;

    const std::string& key() const noexcept { return key_; }   // the object's name
    std::uint64_t offset() const noexcept { return offset_; }  // where the region begins in the object, in bytes

private:
    void read_part(std::uint64_t offset, std::span<std::byte> to) const override;
    void write_part(std::uint64_t offset, std::span<const std::byte> from) const override;

    const std::string key_;
    const std::uint64_t offset_;
    int object_ = -1;
    bool is_writable_ = true;
};

// Memory on a GPU that another process has allocated.
class cuda_region final : public shared_region {
public:
    // Throws refusal as gpu_memory_opener::open() does, and for a wrong name and no bytes. Costs what
    // gpu_memory_opener::open costs.
    cuda_region(std::string name, const gpu_memory_opener& opener, std::int64_t device_id,
                const gpu_memory_handle& handle, std::uint64_t bytes);

    std::int64_t device_id() const noexcept { return device_id_; }  // CUDA's number of the GPU

private:
    void read_part(std::uint64_t offset, std::span<std::byte> to) const override { memory_->read(offset, to); }
    void write_part(std::uint64_t offset, std::span<const std::byte> from) const override {
        memory_->write(offset, from);
    }

    const std::int64_t device_id_;
    const std::shared_ptr<const gpu_memory> memory_;
};

}  // namespace sluice::serve

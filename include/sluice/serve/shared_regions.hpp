// SPDX-License-Identifier: Apache-2.0
// shared_regions: memory that clients share with the server (POSIX shared memory), by the names under which they have
// registered it: Triton's extension "system_shared_memory". Tensors are read from it and written to it.
//
// The server does not map this memory, because its owner may make it smaller at any time, and an access to what is gone
// would end the process. It copies with pread and pwrite, which fail instead.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::serve {

// A part of one object of shared memory. A region that is removed stays until the requests that use it are answered.
class shared_region {
public:
    // Opens the object. Throws refusal (bad_request).
    shared_region(std::string name, std::string key, std::uint64_t offset, std::uint64_t bytes);
    shared_region(const shared_region&) = delete;  // it owns the descriptor
    shared_region& operator=(const shared_region&) = delete;
    ~shared_region();

    const std::string& name() const noexcept { return name_; }  // the name under which it is registered
    const std::string& key() const noexcept { return key_; }    // the object's name, as shm_open takes it
    std::uint64_t offset() const noexcept { return offset_; }   // where the region begins in the object, in bytes
    std::uint64_t bytes() const noexcept { return bytes_; }     // the length of the region

    // Throws refusal (bad_request) for bytes that are not in the region.
    void require_part(std::uint64_t offset, std::uint64_t bytes) const;
    // Copies from `offset` of the region on. Both throw refusal: bad_request for bytes that are not in the region, and
    // for an object that has become too small or, in write(), may not be written.
    void read(std::uint64_t offset, std::span<std::byte> to) const;
    // Copies to the region, from `offset` on. Throws as read(), and where the object may not be written.
    void write(std::uint64_t offset, std::span<const std::byte> from) const;

private:
    const std::string name_, key_;
    const std::uint64_t offset_, bytes_;
    int object_ = -1;
    bool is_writable_ = true;
};

class shared_regions {
public:
    static constexpr std::size_t most_regions = 256;  // that may be registered at a time

    // `key`: the name of an object of shared memory, as shm_open takes it: no '/' but at its beginning. The part from
    // `offset` on, of `bytes`, must be in the object now. Throws refusal (bad_request), also for a name that is in use.
    void add(const std::string& name, const std::string& key, std::uint64_t offset, std::uint64_t bytes);
    // A name that is not registered is no error, as with Triton.
    void remove(std::string_view name);
    void remove_all();  // removes every region, as remove() does
    // Throws refusal (bad_request).
    std::shared_ptr<const shared_region> find(std::string_view name) const;
    std::vector<std::shared_ptr<const shared_region>> all() const;  // by name

private:
    mutable std::mutex mutex_;
    std::map<std::string, std::shared_ptr<const shared_region>, std::less<>> regions_;
};

}  // namespace sluice::serve

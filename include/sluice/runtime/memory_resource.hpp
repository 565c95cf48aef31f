// SPDX-License-Identifier: Apache-2.0
// Memory resources, in both directions: tensors over memory of std::pmr or cuda::mr resources, and a pool of Sluice as
// a std::pmr::memory_resource. sluice/cuda/memory_resource.hpp has a GPU's pool as a resource of cuda::mr.
//
//     std::pmr::synchronized_pool_resource theirs;
//     tensor<float> x = allocate_from<float>(cpu, theirs, {rows, columns});    // contents undefined
//
//     host_memory_resource ours(gpu);
//     std::pmr::vector<float> rows(n, &ours);                                  // in page-locked memory
//
// Optional: no other header includes it.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <memory_resource>
#include <mutex>
#include <unordered_map>

#include "sluice/base/source_location.hpp"
#include "sluice/runtime/adopt.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/memory_pool.hpp"
#include "sluice/runtime/shape.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice {

// std::pmr::memory_resource and the resources of cuda::mr up to CCCL 3.0 (and RMM's): memory that is ready when the
// call returns.
template <typename Resource>
concept plain_resource = requires(Resource& from, void* data, std::size_t bytes, std::size_t alignment) {
    { from.allocate(bytes, alignment) } -> std::same_as<void*>;
    from.deallocate(data, bytes, alignment);
};
// Those of cuda::mr from CCCL 3.1 on, where allocate() takes a stream.
template <typename Resource>
concept synchronous_resource = requires(Resource& from, void* data, std::size_t bytes, std::size_t alignment) {
    { from.allocate_sync(bytes, alignment) } -> std::same_as<void*>;
    from.deallocate_sync(data, bytes, alignment);
};
template <typename Resource>
concept any_memory_resource = plain_resource<Resource> || synchronous_resource<Resource>;  // either of the two

namespace detail {

template <any_memory_resource Resource>
void* allocate_bytes(Resource& from, std::size_t bytes, std::size_t alignment) {
    if constexpr (synchronous_resource<Resource>) {
        return from.allocate_sync(bytes, alignment);
    } else {
        return from.allocate(bytes, alignment);
    }
}
template <any_memory_resource Resource>
void deallocate_bytes(Resource& from, void* data, std::size_t bytes, std::size_t alignment) {
    if constexpr (synchronous_resource<Resource>) {
        from.deallocate_sync(data, bytes, alignment);
    } else {
        from.deallocate(data, bytes, alignment);
    }
}

// Blocks of a pool that code without storage_ref holds by their addresses.
class lent_blocks {
public:
    explicit lent_blocks(memory_pool& pool) noexcept : pool_(pool) {}
    lent_blocks(const lent_blocks&) = delete;  // the blocks have one list
    lent_blocks& operator=(const lent_blocks&) = delete;
    ~lent_blocks() = default;

    // Memory that no command uses. Throws out_of_memory, and what a faulted device throws.
    void* acquire(std::size_t bytes, std::size_t alignment);
    // The block of an address that acquire() returned. Throws errc::invalid_argument for another address.
    storage_ref release(void* data);

private:
    memory_pool& pool_;
    std::mutex mutex_;
    std::unordered_map<void*, storage_ref> blocks_;
};

}  // namespace detail

// A tensor whose memory a resource allocates, with contents that are undefined until a command writes them.
//
// Allocates on this thread, and blocks as long as the resource does. A CPU device takes memory of the host, a GPU
// memory of that GPU. The resource gets the memory back once, when the tensor and its parts are dropped and the last
// command that uses the memory is complete: on the runtime's completion thread, or, once the runtime is destroyed, on
// the thread that drops. So until then the resource lives and may be called on another thread
// (std::pmr::synchronized_pool_resource, not unsynchronized_pool_resource, unless nothing else uses it). Its deallocate
// must not throw and must not wait for work of this runtime. Nothing there is in the order of a stream: memory of a
// stream-ordered resource is ready when its allocate (from CCCL 3.1 on allocate_sync) returns, and is not in use when
// it goes back.
//
// Throws what the resource throws; as adopt() does when the device cannot use the memory, which then goes back at once;
// out_of_memory for a shape with more bytes than a std::size_t counts.
template <typename T, any_memory_resource Resource>
tensor<T> allocate_from(device& on, Resource& from, const shape& shape,
                        const source_location& location = source_location::current()) {
    const command_info info{"allocate_from", {}, location};
    const std::size_t wanted = detail::bytes_for(detail::size_of_new_tensor(shape, on, info), sizeof(T), on, info);
    const std::size_t bytes = std::max<std::size_t>(wanted, 1);  // so that it has an address
    const std::size_t alignment = std::max(adopted_alignment(on), alignof(T));
    void* const data = detail::allocate_bytes(from, bytes, alignment);
    try {
        return adopt(
            on, static_cast<T*>(data), shape,
            [&from, bytes, alignment](T* all) { detail::deallocate_bytes(from, all, bytes, alignment); }, location);
    } catch (...) {
        detail::deallocate_bytes(from, data, bytes, alignment);
        throw;
    }
}

// Host memory of a device's pool, for containers: page-locked for a GPU, so that copies by cudaMemcpyAsync run at full
// speed. It is for the host: code that works on it asynchronously is waited for before the memory is deallocated. A
// container over it is no tensor; adopt() makes one on a CPU device.
//
// Allocating does not wait for a device unless memory is short. It throws out_of_memory, which is no std::bad_alloc,
// and the cause when the device has faulted. Memory goes back to the pool at once. The resource lives until all of its
// memory has been deallocated; until then it keeps the device and its runtime's memory alive. Two resources are equal
// when they are the same object. Deallocating an address that is not of this resource throws errc::invalid_argument; in
// a container's destructor that ends the program.
//
// Thread safety: all members may be called on any thread.
class host_memory_resource final : public std::pmr::memory_resource {
public:
    // Over the host memory of this device's pool: pinned, for a GPU. Costs O(1).
    explicit host_memory_resource(device& of) noexcept : kept_(of), blocks_(of.host_pool()) {}
    host_memory_resource(const host_memory_resource&) = delete;  // containers point to it
    host_memory_resource& operator=(const host_memory_resource&) = delete;
    ~host_memory_resource() override = default;

private:
    void* do_allocate(std::size_t bytes, std::size_t alignment) override { return blocks_.acquire(bytes, alignment); }
    void do_deallocate(void* data, std::size_t, std::size_t) override { blocks_.release(data); }
    bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

    runtime_ref kept_;  // destroyed after the blocks have gone back
    detail::lent_blocks blocks_;
};

}  // namespace sluice

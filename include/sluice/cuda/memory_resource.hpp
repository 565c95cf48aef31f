// SPDX-License-Identifier: Apache-2.0
// A GPU's pool as a memory resource of cuda::mr, and as an allocator for Thrust.
//
//     cuda::device_memory_resource ours(gpu);
//     void* p = ours.allocate_async(bytes, 256, their_stream);
//     ... work on their_stream ...
//     ours.deallocate_async(p, bytes, 256, their_stream);    // does not wait
//
//     cuda::stream_allocator scratch(ours, their_stream);    // temporary memory of Thrust's algorithms
//     thrust::sort(thrust::cuda::par_nosync(scratch).on(their_stream), first, last);
//
// Needs CCCL (the CUDA toolkit's include/cccl). It models cuda::mr::async_resource with cuda::mr::device_accessible of
// CCCL 2.x and 3.0, and has the members of cuda::mr::resource of CCCL 3.1. Define
// LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE before any header of CCCL up to 3.0.
//
// Optional: no other header includes it.
#pragma once

#if !defined(LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE)
#define LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE
#endif
#if __has_include(<cuda/memory_resource>)
#include <cuda/memory_resource>
#include <cuda/stream_ref>
#else
#error \
    "sluice/cuda/memory_resource.hpp: CCCL was not found; add include/cccl of the CUDA toolkit to the include folders"
#endif

#include <cstddef>

#include "sluice/base/error.hpp"
#include "sluice/base/source_location.hpp"
#include "sluice/cuda/foreign_streams.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/memory_resource.hpp"

namespace sluice::cuda {

// Memory of the pool of a GPU, 256-byte aligned or more.
//
// Order. What allocate returns may be used at once, on any stream and by the host: no work is in flight on it. The
// deallocate that takes a stream comes after what was enqueued on that stream before the call: the pool hands the block
// to commands that are ordered after it, and to others when it is complete. Work on the memory in other streams is
// complete before, or that stream waits for it. The deallocate without a stream is for memory whose work is complete.
// No call waits for the GPU unless memory is short. A stream that is being captured is refused with
// errc::invalid_argument: within compiled graphs, take temporary memory as a tensor.
//
// Errors: out_of_memory, which is no std::bad_alloc; the cause when the GPU has faulted; errc::invalid_argument when an
// address is not of this resource. Memory that is deallocated on a GPU that has faulted goes back without an order.
//
// The resource lives until all of its memory has been deallocated, and keeps the device until then. Two resources are
// equal when they are the same object.
//
// Thread safety: all members may be called on any thread.
class device_memory_resource {
public:
    // Throws errc::invalid_argument when the device is not a GPU. Costs a lease of one stream.
    explicit device_memory_resource(device& gpu) : kept_(require_gpu(gpu)), order_(gpu), blocks_(gpu.device_pool()) {}
    device_memory_resource(const device_memory_resource&) = delete;  // others point to it
    device_memory_resource& operator=(const device_memory_resource&) = delete;
    ~device_memory_resource() = default;

    // Memory that may be used at once. Throws out_of_memory. Costs what memory_pool::allocate costs, and on average
    // O(1) for the table of blocks.
    void* allocate(std::size_t bytes, std::size_t alignment = default_alignment) {
        return blocks_.acquire(bytes, alignment);
    }
    // For memory whose work is complete. Costs O(1) on average, and the return of the block to the pool.
    void deallocate(void* data, std::size_t, std::size_t = default_alignment) { blocks_.release(data); }

    // As allocate: the memory is ready at once, so the stream is not used. Costs what allocate costs.
    void* allocate_async(std::size_t bytes, std::size_t alignment, ::cuda::stream_ref) {
        return blocks_.acquire(bytes, alignment);
    }
    void* allocate_async(std::size_t bytes, ::cuda::stream_ref) { return blocks_.acquire(bytes, default_alignment); }
    // The memory goes back after what was enqueued on this stream before the call. Costs one command, and what
    // deallocate costs.
    void deallocate_async(void* data, std::size_t, std::size_t, ::cuda::stream_ref after) { give_back(data, after); }
    void deallocate_async(void* data, std::size_t, ::cuda::stream_ref after) { give_back(data, after); }

    // As CCCL names them from 3.1 on. Costs what allocate costs.
    void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment) {
        return blocks_.acquire(bytes, alignment);
    }
    // As deallocate without a stream. Costs what deallocate costs.
    void deallocate_sync(void* data, std::size_t, std::size_t = default_alignment) { blocks_.release(data); }
    void* allocate(::cuda::stream_ref, std::size_t bytes, std::size_t alignment = default_alignment) {
        return blocks_.acquire(bytes, alignment);
    }
    void deallocate(::cuda::stream_ref after, void* data, std::size_t, std::size_t = default_alignment) {
        give_back(data, after);
    }

    // Whether both are the same object. Costs O(1).
    friend bool operator==(const device_memory_resource& one, const device_memory_resource& other) noexcept {
        return &one == &other;
    }
    // Says to cuda::mr that a GPU can access the memory. Costs nothing.
    friend void get_property(const device_memory_resource&, ::cuda::mr::device_accessible) noexcept {}

private:
    static constexpr std::size_t default_alignment = 256;

    static device& require_gpu(device& gpu) {
        if (gpu.kind() == device_kind::cuda) return gpu;
        throw error(errc::invalid_argument,
                    "this resource is of a GPU; for memory of the host take host_memory_resource",
                    {"device_memory_resource", gpu.name()});
    }
    void give_back(void* data, ::cuda::stream_ref after) {
        const storage_ref block = blocks_.release(data);
        if (kept_device().is_poisoned()) return;
        // A command of our own stream that waits for theirs and counts as the block's last use.
        event_operation::submit_to(*order_, event_operation::kind::wait_for_stream, after.get(), block.get(),
                                   source_location::current());
    }
    device& kept_device() const noexcept { return (*order_).owner(); }

    runtime_ref kept_;  // destroyed after the blocks have gone back
    stream_lease order_;
    detail::lent_blocks blocks_;
};

// An allocator of bytes for one stream, for thrust::cuda::par(...) and par_nosync(...): what an algorithm deallocates
// is reused after what it enqueued. The resource and the stream live longer.
class stream_allocator {
public:
    using value_type = char;  // bytes

    // Allocates for work on this stream; `from` must outlive the allocator.
    stream_allocator(device_memory_resource& from, ::cuda::stream_ref on) noexcept : from_(&from), on_(on) {}

    // As device_memory_resource::allocate_async. Throws what that throws. Costs what that costs.
    char* allocate(std::ptrdiff_t bytes) {
        return static_cast<char*>(from_->allocate_async(static_cast<std::size_t>(bytes), on_));
    }
    // Memory of allocate() goes back after what was enqueued on the stream before the call. Costs what
    // device_memory_resource::deallocate_async costs.
    void deallocate(char* data, std::size_t bytes) { from_->deallocate_async(data, bytes, on_); }

private:
    device_memory_resource* from_;
    ::cuda::stream_ref on_;
};

}  // namespace sluice::cuda

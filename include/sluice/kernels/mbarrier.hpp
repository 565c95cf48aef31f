// SPDX-License-Identifier: Apache-2.0
// Barriers in shared memory that count bytes of bulk copies (sm_90 and later), and those copies: of plain memory, and
// of tiles of a matrix that a tensor map (CUtensorMap, a __grid_constant__ parameter of the kernel) describes.
//
// A barrier runs through phases. Arrivals and bytes that were announced end a phase; a waiter names the parity of the
// phase whose end it waits for: 0 for the first.
//
// For kernels: nothing is declared where a host compiler reads this.
//
// All functions here take constant time, a few instructions of the calling thread, but for those that wait. The copies
// go on after the call.
#pragma once

#if defined(__CUDACC__)

#include <cstddef>
#include <cstdint>

namespace sluice::kernels {

// One barrier, in the shared memory of a block.
class mbarrier {
public:
    // By one thread: `arrivals` arrivals end each phase.
    __device__ void init(unsigned arrivals) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address()), "r"(arrivals) : "memory");
    }
    // After init, before the copies and other threads that use it (these also need a __syncthreads).
    __device__ static void publish_inits() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

    // Before the barrier's memory is used for something else, another barrier too; after all that use the barrier.
    __device__ void invalidate() { asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(address()) : "memory"); }
    // This thread's earlier accesses of shared memory come before copies that are asked for after this and a barrier.
    __device__ static void publish_writes() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

    // Counts one arrival of the current phase.
    __device__ void arrive() { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address()) : "memory"); }
    // Arrives, and announces bytes that the phase waits for.
    __device__ void arrive_expecting(std::size_t bytes) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address()),
                     "r"(static_cast<std::uint32_t>(bytes))
                     : "memory");
    }
    // Waits until the phase of this parity has ended.
    __device__ void wait(unsigned parity) {
        asm volatile(
            "{\n"
            ".reg .pred done;\n"
            "again:\n"
            "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
            "@done bra over;\n"
            "bra again;\n"
            "over:\n"
            "}\n" ::"r"(address()),
            "r"(parity)
            : "memory");
    }
    // The same for what other blocks of the cluster have stored (st.async) and this barrier has counted.
    __device__ void wait_for_cluster(unsigned parity) {
        asm volatile(
            "{\n"
            ".reg .pred done;\n"
            "again:\n"
            "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
            "@done bra over;\n"
            "bra again;\n"
            "over:\n"
            "}\n" ::"r"(address()),
            "r"(parity)
            : "memory");
    }
    // Bytes from device to shared memory, by the copy engine; counted by this barrier. All 16-byte aligned.
    __device__ void copy(void* to, const void* from, std::size_t bytes) {
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                         static_cast<std::uint32_t>(__cvta_generic_to_shared(to))),
                     "l"(from), "r"(static_cast<std::uint32_t>(bytes)), "r"(address())
                     : "memory");
    }

    // A tile of a matrix: its first element is at [row, column], elements beyond the matrix arrive as zeros. Bytes as
    // the map's box has them, at a multiple of 128 bytes (of 1024 where the map swizzles).
    __device__ void copy_tile(void* to, const void* map, int row, int column) {
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
                "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(to))),
            "l"(map), "r"(column), "r"(row), "r"(address())
            : "memory");
    }
    // The same into each block of the cluster whose bit is set in `blocks`, at the same place, counted by the barrier
    // there that is at this one's place.
    __device__ void copy_tile_to(std::uint16_t blocks, void* to, const void* map, int row, int column) {
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
            "[%1, {%2, %3}], [%4], %5;" ::"r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(to))),
            "l"(map), "r"(column), "r"(row), "r"(address()), "h"(blocks)
            : "memory");
    }
    // Arrives at the barrier at this one's place in another block of the cluster. For tiles that the tensor cores have
    // read there and the copy engine writes next: ordinary writes of this thread are not made visible to the other
    // block, since that (.release.cluster) would wait for all of its memory accesses each time.
    __device__ void arrive_at(unsigned block) {
        asm volatile(
            "{\n"
            ".reg .b32 there;\n"
            "mapa.shared::cluster.u32 there, %0, %1;\n"
            "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
            "}\n" ::"r"(address()),
            "r"(block)
            : "memory");
    }

private:
    __device__ std::uint32_t address() const { return static_cast<std::uint32_t>(__cvta_generic_to_shared(&state_)); }

    std::uint64_t state_;
};

// Tiles from shared memory to the matrix of a tensor map, by the copy engine: what lies beyond the matrix is not
// written. The threads that wrote the tile call publish_tile() before the barrier that is before the copy.
__device__ inline void publish_tile() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// By one thread: the tile in shared memory to the place whose first element is at [row, column]; does not wait.
__device__ inline void store_tile(const void* map, int row, int column, const void* from) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(column),
                 "r"(row), "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(from)))
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Waits until at most `Pending` of this thread's stores still read shared memory.
template <int Pending>
__device__ inline void wait_for_stores_to_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Pending) : "memory");
}

// All threads of the cluster's blocks.
__device__ inline void cluster_barrier() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// Where the block of the cluster has what this one has at `mine`, in shared memory, for store_there.
__device__ inline std::uint32_t address_in_block(const void* mine, unsigned block) {
    std::uint32_t there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(there)
        : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(mine))), "r"(block));
    return there;
}
// Four numbers to an address that address_in_block has given.
__device__ inline void store_there(std::uint32_t address, const float (&four)[4]) {
    asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(four[0]), "f"(four[1]),
                 "f"(four[2]), "f"(four[3])
                 : "memory");
}
// The rank of the calling thread's block in its cluster.
__device__ inline unsigned block_in_cluster() {
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

}  // namespace sluice::kernels

#endif

// Barriers in shared memory that count bytes of bulk copies (sm_90 and later), and those copies.
//
// A barrier runs through phases. Arrivals and bytes that were announced end a phase; a waiter names the parity of the
// phase whose end it waits for: 0 for the first.
//
// For kernels: nothing is declared where a host compiler reads this.
#pragma once

#if defined(__CUDACC__)

#include <cstddef>
#include <cstdint>

namespace sluice::kernels {

class mbarrier {
public:
    __device__ void init(unsigned arrivals) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address()), "r"(arrivals) : "memory");
    }
    // After init, before the copies and other threads that use it (these also need a __syncthreads).
    __device__ static void publish_inits() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

    __device__ void arrive() { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address()) : "memory"); }
    // Arrives, and announces bytes that the phase waits for.
    __device__ void arrive_expecting(std::size_t bytes) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address()),
                     "r"(static_cast<std::uint32_t>(bytes))
                     : "memory");
    }
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
    // Bytes from device to shared memory, by the copy engine; counted by this barrier. All 16-byte aligned.
    __device__ void copy(void* to, const void* from, std::size_t bytes) {
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                         static_cast<std::uint32_t>(__cvta_generic_to_shared(to))),
                     "l"(from), "r"(static_cast<std::uint32_t>(bytes)), "r"(address())
                     : "memory");
    }

private:
    __device__ std::uint32_t address() const { return static_cast<std::uint32_t>(__cvta_generic_to_shared(&state_)); }

    std::uint64_t state_;
};

}  // namespace sluice::kernels

#endif

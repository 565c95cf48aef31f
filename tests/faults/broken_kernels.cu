// SPDX-License-Identifier: Apache-2.0
#include "faults/broken_kernels.hpp"

#include "sluice/runtime/launch.hpp"

#undef NDEBUG
#include <cassert>

namespace sluice::faults {
namespace {

struct trap_kernel {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<unsigned> x) const {
        if (unsigned* const e = x.at(at)) *e = 1;
#ifdef __CUDA_ARCH__
        __trap();
#endif
    }
};

struct trap_if_kernel {
    SLUICE_KERNEL void operator()(index_1d at, [[maybe_unused]] unsigned breaks, disjoint_view<unsigned> x) const {
        if (unsigned* const e = x.at(at)) ++*e;
#ifdef __CUDA_ARCH__
        if (breaks != 0) __trap();
#endif
    }
};

struct illegal_address_kernel {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<unsigned> x) const {
        if (unsigned* const e = x.at(at)) {
#ifdef __CUDA_ARCH__
            *reinterpret_cast<volatile unsigned*>(std::uintptr_t{16} + 4 * (reinterpret_cast<std::uintptr_t>(e) % 8)) =
                1;
#else
            *e = 1;
#endif
        }
    }
};

struct misaligned_address_kernel {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<unsigned> x) const {
        if (unsigned* const e = x.at(at)) {
#ifdef __CUDA_ARCH__
            *reinterpret_cast<volatile unsigned*>(reinterpret_cast<std::uintptr_t>(e) + 1) = 1;
#else
            *e = 1;
#endif
        }
    }
};

struct failed_assertion_kernel {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<unsigned> x) const {
        if (unsigned* const e = x.at(at)) {
            *e = 1;
#ifdef __CUDA_ARCH__
            assert(*e == 2);
#endif
        }
    }
};

}  // namespace

std::string to_string(breakage how) {
    switch (how) {
        case breakage::trap: return "trap";
        case breakage::illegal_address: return "illegal_address";
        case breakage::misaligned_address: return "misaligned_address";
        case breakage::failed_assertion: return "failed_assertion";
    }
    return "";
}

std::string kernel_name(breakage how) { return to_string(how) + "_kernel"; }

void trap_if_on(stream on, tensor<unsigned>& x, bool breaks) {
    launch_on(on, trap_if_kernel{}, each_of(x), breaks ? 1u : 0u, x);
}

void break_on(stream on, tensor<unsigned>& x, breakage how) {
    switch (how) {
        case breakage::trap: return launch_on(on, trap_kernel{}, each_of(x), x);
        case breakage::illegal_address: return launch_on(on, illegal_address_kernel{}, each_of(x), x);
        case breakage::misaligned_address: return launch_on(on, misaligned_address_kernel{}, each_of(x), x);
        case breakage::failed_assertion: return launch_on(on, failed_assertion_kernel{}, each_of(x), x);
    }
}

}  // namespace sluice::faults

// SPDX-License-Identifier: Apache-2.0
// resident_blocks: how many blocks of a kernel run at the same time, which a cooperative launch may have at most.
//
//     const std::size_t most = resident_blocks(gpu, sum_in_two_phases{}, 256, shared_memory<float>(256));
//     launch(sum_in_two_phases{}, blocks(std::min(needed, most), 256), shared_memory<float>(256), ...)
//
// For kernels that take a thread_grid or a thread_block. It is a number for the idle device: kernels that run there
// now, of other streams too, leave room for fewer, and a cooperative launch then waits until all its blocks fit. A CPU
// device counts as an H200 does, registers left out.
//
// Errors: errc::invalid_argument for a block or shared memory beyond the device's limits; errc::unsupported on a GPU
// when nvcc did not compile the call.
#pragma once

#include <cstddef>
#include <string_view>

#include "sluice/runtime/block_kernel.hpp"

namespace sluice {

namespace detail {
struct occupying_kernel {
    std::string_view name;
    const void* function;  // on a GPU: the __global__ function
    bool waits;            // whether its blocks wait for each other
    bool is_checked;       // whether it checks its bounds
};
std::size_t resident_blocks(device& on, const occupying_kernel& kernel, const launch_extent& block,
                            std::size_t shared_bytes);

template <typename Parameters>
struct values_of;
template <typename... Parameters>
struct values_of<type_list<Parameters...>> {
    using type = kernel_values<Parameters...>;
};
}  // namespace detail

inline namespace SLUICE_LAUNCH_ABI {

// `shared`: the shared_memory arguments of the launch, in their order. Costs O(1) on a CPU and a few calls of the
// driver on a GPU.
template <typename Kernel, typename... Ts>
std::size_t resident_blocks(device& on, const Kernel&, launch_extent block, const shared_memory<Ts>&... shared) {
    static_assert(detail::is_block_kernel<Kernel>,
                  "resident_blocks: a kernel is a class with one `void operator()(const thread_grid&, parameters...) "
                  "const`, or with a const thread_block& as its first parameter");
    if constexpr (detail::is_block_kernel<Kernel>) {
        using signature = detail::kernel_signature<Kernel>;
        using body = detail::body_of<Kernel, typename detail::values_of<typename signature::parameters>::type>;
        static_assert(body::group != detail::launch_group::cluster,
                      "resident_blocks: of kernels with clusters any number of blocks may be launched");
        auto pieces = detail::make_kernel_values(shared...);
        const detail::occupying_kernel its{detail::type_name<Kernel>(), body::device_function(),
                                           body::group == detail::launch_group::grid, SLUICE_CHECK_BOUNDS != 0};
        return detail::resident_blocks(on, its, block, detail::lay_out_shared_memory(pieces));
    } else {
        return 0;
    }
}
template <typename Kernel, typename... Ts>
std::size_t resident_blocks(device& on, const Kernel& kernel, unsigned threads, const shared_memory<Ts>&... shared) {
    return resident_blocks(on, kernel, launch_extent{threads}, shared...);
}

}  // namespace SLUICE_LAUNCH_ABI

}  // namespace sluice

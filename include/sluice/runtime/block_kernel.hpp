// SPDX-License-Identifier: Apache-2.0
// launch over blocks: kernels with a grid and block size of their own, shared memory and sync.
//
//     struct block_sums {
//         SLUICE_KERNEL void operator()(const thread_block& block, shared_memory<float> shared, view<const float> x,
//                                       disjoint_blocks<float> sums) const {
//             const block_part<float> part = block.part(shared);
//             block.for_each_thread([&](const block_thread& t) {
//                 const std::size_t i = t.flat().value();
//                 part[t.index()] = i < x.size() ? x[i] : 0;
//             });
//             for (unsigned half = block.threads() / 2; half != 0; half /= 2) {
//                 block.sync();
//                 block.for_each_thread([&](const block_thread& t) {
//                     if (t.index() < half) part[t.index()] += part[t.index() + half];
//                 });
//             }
//             block.sync();
//             block.for_each_thread([&](const block_thread& t) {
//                 if (t.index() == 0) sums.part(block)[0] = part[0];
//             });
//         }
//     };
//     launch(block_sums{}, blocks_over(n, 256), shared_memory<float>(256), x, std::move(sums))
//
// It runs on a CPU, too: there a worker thread runs one block after the other. thread_block.hpp says how such a kernel
// is written. Its first parameter says which blocks know of each other:
//     first parameter         launch                             blocks
//     const thread_block&     blocks(g, b)                       independent of each other
//     const block_cluster&    blocks(g, b).in_clusters_of(4)     of a cluster reach each other's shared memory
//                                                                (block_cluster.hpp)
//     const thread_grid&      blocks(g, b), a cooperative one    all wait for each other (thread_grid.hpp,
//                                                                which the file of the kernel includes)
//
// The other parameters are those of launch, and:
//     parameter               argument                       use
//     shared_memory<T>        shared_memory<T>(count)        of each block, while it runs
//     disjoint_blocks<T>      tensor<T>                      written: each block has as many elements, the last ones
//     fewer
//     grid_memory<T>          tensor<T>                      written: of all blocks, for thread_grid kernels
// disjoint_view and disjoint_matrix take the thread's place, t.flat() or t.at().
//
// It costs one command and O(arguments) on the host, and an allocation where the blocks need scratch memory.
//
// Errors, all before anything is submitted: errc::invalid_argument for a grid or block that is empty or beyond CUDA's
// limits, for more shared memory than the device has for a block, for a cluster that is larger than the device's or
// does not divide the grid, and for a cooperative launch of more blocks than fit on the device at once; the limit is
// named. errc::unsupported for clusters and cooperative launches on a device without them. Otherwise those of launch.
// A CPU device has the limits of an H200, registers left out. There the shared memory of all blocks of a cluster or a
// grid exists at the same time: at most 30 MiB.
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>

#include "sluice/base/thread_block.hpp"
#include "sluice/runtime/blocks.hpp"
#include "sluice/runtime/detail/block_launch.hpp"
#include "sluice/runtime/detail/group_launch.hpp"

namespace sluice {

inline namespace SLUICE_LAUNCH_ABI {

// The plain form: a launch as one command on a stream. The caller keeps the arguments. Costs one command and
// O(arguments) on the host, and an allocation where the blocks need scratch memory.
template <typename Kernel, typename... Arguments>
void launch_on(stream on, const Kernel& kernel, const launch_blocks& range, const Arguments&... arguments) {
    static_assert(detail::argument_check<Kernel, Arguments...>::passed);
    using signature = detail::kernel_signature<Kernel>;
    using binding = detail::argument_binding<typename signature::parameters, Arguments...>;
    const error_context context{detail::type_name<Kernel>(), detail::device_name(on), range.location};
    auto values = binding::bind(context, arguments...);
    using body = detail::body_of<Kernel, decltype(values)>;
    const std::size_t shared_bytes = detail::lay_out_shared_memory(values);
    detail::require_block_launch(on, range, body::group, shared_bytes, context);
    const auto used = binding::accesses(arguments...);
    detail::block_scratch scratch(on, body::scratch_bytes(range, shared_bytes), context);
    const auto accesses = detail::with_scratch(used, scratch);
    typename body::closure closure = body::make(range, scratch.data(), shared_bytes, values, kernel);
    launch_command command = body::command(closure, shared_bytes);
    detail::add_notice(on, context.operation, closure, command);
    const auto launched = binding::launched(arguments...);
    command.launches = launched;
    const command_info info = {context.operation, scratch.named(accesses), range.location};
    on.launch(info, command);
}

// The operation that launch over blocks returns.
template <typename Kernel, typename... Arguments>
class block_launch_operation : public operation_base<block_launch_operation<Kernel, Arguments...>> {
    using binding = detail::argument_binding<typename detail::kernel_signature<Kernel>::parameters, Arguments...>;

public:
    using output = typename binding::written;

    block_launch_operation(Kernel kernel, const launch_blocks& range, Arguments... arguments)
        : kernel_(std::move(kernel)), range_(range), arguments_(std::move(arguments)...) {}

    output submit(execution_context& context) && {
        std::apply([&](const Arguments&... each) { launch_on(detail::stream_of(context), kernel_, range_, each...); },
                   arguments_);
        return binding::take_written(std::move(arguments_));
    }
    work_estimate estimate() const { return {.commands = 1}; }

private:
    Kernel kernel_;
    launch_blocks range_;
    std::tuple<Arguments...> arguments_;
};

template <typename Kernel, typename... Arguments>
auto launch(Kernel kernel, const launch_blocks& range, Arguments&&... arguments) {
    static_assert(std::is_trivially_copyable_v<Kernel>, "launch: a kernel object is copied to the device byte by byte");
    static_assert(detail::is_block_kernel<Kernel>,
                  "launch over blocks: a kernel is a class with one "
                  "`void operator()(const thread_block&, parameters...) const`, or with a const block_cluster& or a "
                  "const thread_grid& as its first parameter");
    if constexpr (detail::is_block_kernel<Kernel>) {
        if constexpr (detail::argument_check<Kernel, std::decay_t<Arguments>...>::passed) {
            return block_launch_operation<Kernel, std::decay_t<Arguments>...>(std::move(kernel), range,
                                                                              std::forward<Arguments>(arguments)...);
        }
    }
}

}  // namespace SLUICE_LAUNCH_ABI

}  // namespace sluice

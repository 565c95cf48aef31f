// SPDX-License-Identifier: Apache-2.0
// pipelined_reduce: one value of a whole tensor, which a block pipeline computes batch by batch.
//
// The first argument is the form of the loop (pipelined_forms.hpp). The reduction is an object of yours:
//
//     struct sum_of_squares {
//         using value = double;
//         SLUICE_KERNEL value none() const { return 0; }
//         SLUICE_KERNEL void add(value& sum, const float* batch, std::size_t first, std::size_t count, unsigned rank,
//                                unsigned threads) const {
//             for (std::size_t i = rank; i < count; i += threads) sum += double{batch[i]} * batch[i];
//         }
//         SLUICE_KERNEL value combine(value a, value b) const { return a + b; }
//     };
//
// Each thread that computes has a value, which is none() at first, and adds its part of each batch to it: `batch` is
// the elements from `first` on, `count` of them, in shared memory, this thread is `rank` of `threads`. In the end all
// values are combined. `combine` is associative and commutative, and none() changes nothing; the order is the same from
// run to run with the same options on the same kind of device. With no elements the result is none().
#pragma once

#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "sluice/base/source_location.hpp"
#include "sluice/kernels/detail/pipelined_launch.hpp"
#include "sluice/kernels/pipelined_loops.hpp"
#include "sluice/op/operation.hpp"
#include "sluice/runtime/detail/closure.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice {

namespace detail {

inline namespace SLUICE_LAUNCH_ABI {

template <typename T, typename Reduction>
struct pipelined_reduction {
    using value = typename Reduction::value;
    const T* in;
    value* out;  // of each block
    std::size_t size;
    std::size_t batch;
    Reduction reduction;

    SLUICE_KERNEL pipelined::batches<T> input() const { return {in, size, batch}; }
};

template <typename Call>
struct pipelined_adder {
    const Call& all;
    typename Call::value& sum;

    template <typename T>
    SLUICE_KERNEL void operator()(const T* staged, std::size_t first, std::size_t count, unsigned rank,
                                  unsigned threads) const {
        all.reduction.add(sum, staged, first, count, rank, threads);
    }
};

template <typename Call>
void reduce_on_host(const void* closure) {
    const auto& all = *static_cast<const Call*>(closure);
    auto sum = all.reduction.none();
    run_pipelined(pipelined::plain_loads{}, all.input(), nullptr, pipelined_adder<Call>{all, sum});
    *all.out = sum;
}

// The values of the blocks, combined.
template <typename Reduction>
struct pipelined_rest {
    using value = typename Reduction::value;
    const value* of_blocks;
    value* out;
    std::size_t blocks;
    Reduction reduction;
};

#if defined(__CUDACC__)

// All threads of the block call this; thread 0 gets the result. `shared` has room for a value of each thread.
template <typename Value, typename Reduction>
__device__ Value combine_block(const Reduction& reduction, const Value& mine, void* shared) {
    Value* const values = static_cast<Value*>(shared);
    __syncthreads();  // the loop is over in all threads, also in those that took no part
    values[threadIdx.x] = mine;
    for (unsigned left = blockDim.x; left > 1;) {
        __syncthreads();
        const unsigned half = (left + 1) / 2;
        if (threadIdx.x < left / 2) {
            values[threadIdx.x] = reduction.combine(values[threadIdx.x], values[threadIdx.x + half]);
        }
        left = half;
    }
    return values[threadIdx.x];
}

template <typename Form, typename Call>
__global__ void reduce_on_device(const __grid_constant__ Call all) {
    extern __shared__ __align__(128) unsigned char pipelined_shared[];
    auto sum = all.reduction.none();
    run_pipelined(Form{}, all.input(), pipelined_shared, pipelined_adder<Call>{all, sum});
    const auto whole = combine_block(all.reduction, sum, pipelined_shared);
    if (threadIdx.x == 0) all.out[blockIdx.x] = whole;
}

template <typename Call>
__global__ void reduce_rest_on_device(const __grid_constant__ Call all) {
    extern __shared__ __align__(128) unsigned char pipelined_shared[];
    auto sum = all.reduction.none();
    for (std::size_t i = threadIdx.x; i < all.blocks; i += blockDim.x) {
        sum = all.reduction.combine(sum, all.of_blocks[i]);
    }
    const auto whole = combine_block(all.reduction, sum, pipelined_shared);
    if (threadIdx.x == 0) *all.out = whole;
}

#endif

}  // namespace SLUICE_LAUNCH_ABI

template <typename T, typename Reduction>
inline constexpr bool can_clear_padding<pipelined_reduction<T, Reduction>> = can_clear_padding<Reduction>;
template <typename Reduction>
inline constexpr bool can_clear_padding<pipelined_rest<Reduction>> = can_clear_padding<Reduction>;

}  // namespace detail

inline namespace SLUICE_LAUNCH_ABI {

// The plain form: one command on a stream, two on a GPU when there are several blocks, with memory between them that is
// released after them. `out` has one element. Does not block. Throws, before anything is submitted,
// errc::shape_mismatch or errc::invalid_argument (options out of range; more shared memory than a block has);
// errc::unsupported for `bulk` on a GPU before sm_90 and for code that nvcc did not compile. Costs these commands, and
// that memory.
template <typename Form, typename T, typename Reduction>
void pipelined_reduce(stream on, Form, Reduction reduction, const tensor<T>& in, tensor<typename Reduction::value>& out,
                      const pipelined_options& options = {}, source_location location = source_location::current()) {
    using value = typename Reduction::value;
    static_assert(std::is_trivially_copyable_v<Reduction>, "the reduction is copied to the device byte by byte");
    static_assert(std::is_trivially_copyable_v<value> && sizeof(value) <= 32 && alignof(value) <= 16,
                  "the value of a reduction is trivially copyable and has at most 32 bytes");
    static_assert(std::is_invocable_r_v<value, decltype(&Reduction::none), const Reduction&>,
                  "a reduction has none(), the value that changes nothing");
    const error_context context{"pipelined_reduce", on.owner().name(), location};
    detail::require_held(in, context);
    detail::require_held(out, context);
    if (out.size() != 1) {
        throw error(errc::shape_mismatch, "the output has one element, not the shape " + to_string(out.shape()),
                    context);
    }
    auto extent = detail::pipelined_extent<Form, T>(on, in.size(), options, "pipelined_reduce", location);
    if (in.memory() == out.memory()) throw error(errc::invalid_argument, "the output is also the input", context);
    const std::size_t of_threads = options.threads * sizeof(value);
    if (extent.shared_bytes < of_threads) extent.shared_bytes = of_threads;
    const bool is_one = on.owner().kind() != device_kind::cuda || extent.blocks <= 1;

    using call = detail::pipelined_reduction<T, Reduction>;
    const auto first_pass = [&](tensor<value>& to) {
        call all{in.device_data(), to.device_data(), in.size(), options.batch_bytes / sizeof(T), reduction};
        launch_command command;
#if defined(__CUDACC__)
        command.device_function = reinterpret_cast<const void*>(&detail::reduce_on_device<Form, call>);
#endif
        command.host_function = &detail::reduce_on_host<call>;
        command.may_fail = SLUICE_CHECK_BOUNDS != 0;  // the reduction may hold views
        command.grid.x = is_one ? 1 : extent.blocks;
        command.block.x = options.threads;
        command.shared_bytes = extent.shared_bytes;
        detail::set_closure(command, all);
        const std::array accesses{memory_access{in.memory(), access_mode::read},
                                  memory_access{to.memory(), access_mode::write}};
        on.launch({"pipelined_reduce", accesses, location}, command);
    };
    if (is_one) return first_pass(out);

    tensor<value> of_blocks(on, {extent.blocks}, {"pipelined_reduce", {}, location});
    first_pass(of_blocks);
    using rest = detail::pipelined_rest<Reduction>;
    rest all{of_blocks.device_data(), out.device_data(), extent.blocks, reduction};
    launch_command command;
#if defined(__CUDACC__)
    command.device_function = reinterpret_cast<const void*>(&detail::reduce_rest_on_device<rest>);
#endif
    command.block.x = 256;  // no body for a CPU, which computes the result in one command
    command.shared_bytes = 256 * sizeof(value);
    detail::set_closure(command, all);
    const std::array accesses{memory_access{of_blocks.memory(), access_mode::read},
                              memory_access{out.memory(), access_mode::write}};
    on.launch({"pipelined_reduce", accesses, location}, command);
}

template <typename Form, typename T, typename Reduction>
class pipelined_reduce_operation : public operation_base<pipelined_reduce_operation<Form, T, Reduction>> {
public:
    using output = tensor<typename Reduction::value>;

    pipelined_reduce_operation(Reduction reduction, tensor<T> in, const pipelined_options& options,
                               source_location location)
        : reduction_(reduction), in_(std::move(in)), options_(options), location_(location) {}

    output submit(execution_context& context) && {
        output out(context.stream(), {}, {"pipelined_reduce", {}, location_});
        pipelined_reduce(context.stream(), Form{}, reduction_, in_, out, options_, location_);
        return out;
    }
    work_estimate estimate() const { return {.commands = 2}; }

private:
    Reduction reduction_;
    tensor<T> in_;
    pipelined_options options_;
    source_location location_;
};

// The operation: its output is a new tensor of rank 0; the input is released after it. Submitting it costs the tensor,
// and what the plain form costs.
template <typename Form, typename T, typename Reduction>
auto pipelined_reduce(Form, Reduction reduction, tensor<T> in, const pipelined_options& options = {},
                      source_location location = source_location::current()) {
    return pipelined_reduce_operation<Form, T, Reduction>(reduction, std::move(in), options, location);
}

}  // namespace SLUICE_LAUNCH_ABI
}  // namespace sluice

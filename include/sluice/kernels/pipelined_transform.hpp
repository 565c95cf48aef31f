// SPDX-License-Identifier: Apache-2.0
// pipelined_transform: out = f(in), batch by batch, where a block copies the next batches to shared memory while it
// computes on this one. The first argument is the form of that loop (pipelined_forms.hpp lists them); run_pipelined
// (pipelined_loops.hpp) is the loop in kernels of your own.
//
// The function object is called by each thread that computes:
//
//     struct square {
//         SLUICE_KERNEL void operator()(const float* batch, float* out, std::size_t count, unsigned rank,
//                                       unsigned threads) const {
//             for (std::size_t i = rank; i < count; i += threads) out[i] = batch[i] * batch[i];
//         }
//     };
//
// `batch` is `count` elements in shared memory, `out` their places in the output, whose elements may be of another type
// than the input's; this thread is `rank` of `threads`.
// On a CPU all forms are one loop over batches, with rank 0 of 1. Files that use this are compiled by nvcc where a GPU
// is to run it.
#pragma once

#include <array>
#include <cstddef>
#include <type_traits>

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

template <typename T, typename Out, typename Function>
struct pipelined_call {
    using element = T;
    const T* in;
    Out* out;
    std::size_t size;   // elements
    std::size_t batch;  // elements of one, but the last
    Function function;

    SLUICE_KERNEL std::size_t batches() const { return (size + batch - 1) / batch; }
    SLUICE_KERNEL std::size_t count(std::size_t which) const {
        return which + 1 < batches() ? batch : size - which * batch;
    }
    SLUICE_KERNEL void compute(const T* staged, std::size_t which, unsigned rank, unsigned threads) const {
        function(staged, out + which * batch, count(which), rank, threads);
    }
};

template <typename Call>
void pipelined_on_host(const void* closure) {
    const auto& all = *static_cast<const Call*>(closure);
    for (std::size_t which = 0; which < all.batches(); ++which) all.compute(all.in + which * all.batch, which, 0, 1);
}

#if defined(__CUDACC__)
template <typename Form, typename Call>
__global__ void pipelined_on_device(const __grid_constant__ Call all) {
    extern __shared__ __align__(128) unsigned char pipelined_shared[];
    run_pipelined_as(Form{}, kernel_group{}, all, pipelined_shared);
}
#endif

template <typename Form, typename Call>
launch_command pipelined_command(Form, const Call&) {
    launch_command made;
#if defined(__CUDACC__)
    made.device_function = reinterpret_cast<const void*>(&pipelined_on_device<Form, Call>);
#endif
    made.host_function = &pipelined_on_host<Call>;
    made.may_fail = SLUICE_CHECK_BOUNDS != 0;  // the function may hold views
    return made;
}

}  // namespace SLUICE_LAUNCH_ABI

template <typename T, typename Out, typename Function>
inline constexpr bool can_clear_padding<pipelined_call<T, Out, Function>> = can_clear_padding<Function>;

}  // namespace detail

inline namespace SLUICE_LAUNCH_ABI {

// The plain form: one command on a stream. `out` has the shape of `in` and is not it. Does not block. Throws, before
// anything is submitted, errc::shape_mismatch or errc::invalid_argument (options out of range; more shared memory than
// a block has); errc::unsupported for `bulk` on a GPU before sm_90 and for code that nvcc did not compile. Costs one
// command.
template <typename Form, typename T, typename Out, typename Function>
void pipelined_transform(stream on, Form form, Function function, const tensor<T>& in, tensor<Out>& out,
                         const pipelined_options& options = {}, source_location location = source_location::current()) {
    static_assert(std::is_trivially_copyable_v<Function>, "the function object is copied to the device byte by byte");
    static_assert(std::is_invocable_v<const Function&, const T*, Out*, std::size_t, unsigned, unsigned>,
                  "pipelined_transform calls function(const T* batch, Out* out, count, rank, threads)");
    if (in.shape() != out.shape()) {
        throw error(errc::shape_mismatch, to_string(in.shape()) + " into " + to_string(out.shape()),
                    {"pipelined_transform", on.owner().name(), location});
    }
    const error_context context{"pipelined_transform", detail::device_name(on), location};
    detail::require_held(in, context);
    detail::require_held(out, context);
    const auto extent = detail::pipelined_extent<Form, T>(on, in.size(), options, "pipelined_transform", location);
    if (in.size() == 0) return;
    if (in.memory() == out.memory()) {
        throw error(errc::invalid_argument, "the output is also the input",
                    {"pipelined_transform", on.owner().name(), location});
    }
    using call = detail::pipelined_call<T, Out, Function>;
    call all{in.device_data(), out.device_data(), in.size(), options.batch_bytes / sizeof(T), function};
    launch_command command = detail::pipelined_command(form, all);
    command.block.x = options.threads;
    command.shared_bytes = extent.shared_bytes;
    command.grid.x = extent.blocks;
    detail::set_closure(command, all);
    const std::array accesses{memory_access{in.memory(), access_mode::read},
                              memory_access{out.memory(), access_mode::write}};
    on.launch({"pipelined_transform", accesses, location}, command);
}

template <typename Form, typename T, typename Out, typename Function>
class pipelined_transform_operation : public operation_base<pipelined_transform_operation<Form, T, Out, Function>> {
public:
    using output = tensor<Out>;

    pipelined_transform_operation(Function function, tensor<T> in, const pipelined_options& options,
                                  source_location location)
        : function_(function), in_(std::move(in)), options_(options), location_(location) {}

    output submit(execution_context& context) && {
        output out(context.stream(), in_.shape(), {"pipelined_transform", {}, location_});
        pipelined_transform(context.stream(), Form{}, function_, in_, out, options_, location_);
        return out;
    }
    work_estimate estimate() const { return {.commands = 1}; }

private:
    Function function_;
    tensor<T> in_;
    pipelined_options options_;
    source_location location_;
};

// The operation: its output is a new tensor; the input is released after it. Submitting it costs a new tensor and one
// command.
template <typename Form, typename T, typename Function>
auto pipelined_transform(Form, Function function, tensor<T> in, const pipelined_options& options = {},
                         source_location location = source_location::current()) {
    return pipelined_transform_operation<Form, T, T, Function>(function, std::move(in), options, location);
}

// The same with elements of another type: pipelined_transform<double>(form, function, x).
template <typename Out, typename Form, typename T, typename Function>
requires std::is_base_of_v<pipelined::form, Form>
auto pipelined_transform(Form, Function function, tensor<T> in, const pipelined_options& options = {},
                         source_location location = source_location::current()) {
    return pipelined_transform_operation<Form, T, Out, Function>(function, std::move(in), options, location);
}

}  // namespace SLUICE_LAUNCH_ABI
}  // namespace sluice

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
// `batch` is `count` elements in shared memory, `out` their places in the output; this thread is `rank` of `threads`.
// On a CPU all forms are one loop over batches, with rank 0 of 1. Files that use this are compiled by nvcc where a GPU
// is to run it.
#pragma once

#include <array>
#include <cstddef>
#include <type_traits>

#include "sluice/base/source_location.hpp"
#include "sluice/kernels/pipelined_loops.hpp"
#include "sluice/op/operation.hpp"
#include "sluice/runtime/detail/closure.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice {

struct pipelined_options {
    unsigned threads = 256;          // of a block, those that only copy or take no part included; at most 1024
    std::size_t batch_bytes = 8192;  // a multiple of 16; shared memory holds as many as the form has stages, for
                                     // warp_scope that many for each warp
    unsigned blocks = 0;             // 0: as many as the device runs at once with 48 KiB of shared memory each
};

namespace detail {

inline namespace SLUICE_LAUNCH_ABI {

template <typename T, typename Function>
struct pipelined_call {
    using element = T;
    const T* in;
    T* out;
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
    return made;
}

}  // namespace SLUICE_LAUNCH_ABI
}  // namespace detail

inline namespace SLUICE_LAUNCH_ABI {

// The plain form: one command on a stream. `out` has the shape of `in` and is not it. Does not block. Throws, before
// anything is submitted, errc::shape_mismatch or errc::invalid_argument (options out of range; more shared memory than
// a block has); errc::unsupported for `bulk` on a GPU before sm_90 and for code that nvcc did not compile.
template <typename Form, typename T, typename Function>
void pipelined_transform(stream on, Form form, Function function, const tensor<T>& in, tensor<T>& out,
                         const pipelined_options& options = {}, source_location location = source_location::current()) {
    static_assert(std::is_base_of_v<pipelined::form, Form>, "the form is one of pipelined_forms.hpp");
    static_assert(detail::can_be_staged<T>,
                  "a block pipeline copies trivially copyable elements of 1, 2, 4, 8 or 16 bytes");
    static_assert(std::is_trivially_copyable_v<Function>, "the function object is copied to the device byte by byte");
    const auto& gpu = on.owner().properties();
    const error_context context{"pipelined_transform", on.owner().name(), location};
    if (in.shape() != out.shape()) {
        throw error(errc::shape_mismatch, to_string(in.shape()) + " into " + to_string(out.shape()), context);
    }
    const bool on_gpu = on.owner().kind() == device_kind::cuda;
    const std::size_t shared_bytes = pipelined::shared_bytes<Form>(options.threads, options.batch_bytes);
    if (options.threads > 1024 || !Form::fits(options.threads) || options.batch_bytes == 0 ||
        options.batch_bytes % 16 != 0 || (on_gpu && shared_bytes > gpu.max_shared_bytes_per_block - 1024)) {
        throw error(errc::invalid_argument, "threads, batch or stages out of range", context);
    }
    if (on_gpu && Form::needs_hopper && gpu.compute_capability < 90) {
        throw error(errc::unsupported, "bulk copies need compute capability 9.0", context);
    }
    if (in.size() == 0) return;
    if (in.memory() == out.memory()) throw error(errc::invalid_argument, "the output is also the input", context);

    using call = detail::pipelined_call<T, Function>;
    call all{in.device_data(), out.device_data(), in.size(), options.batch_bytes / sizeof(T), function};
    launch_command command = detail::pipelined_command(form, all);
    command.block.x = options.threads;
    command.shared_bytes = shared_bytes;
    const std::size_t batches = (all.size + all.batch - 1) / all.batch;
    const std::size_t most = options.blocks != 0 ? options.blocks : 4 * static_cast<std::size_t>(gpu.compute_units);
    const std::size_t pipelines = Form::pipelines(options.threads);
    const std::size_t blocks = (batches + pipelines - 1) / pipelines;
    command.grid.x = static_cast<unsigned>(blocks < most ? blocks : most);
    detail::set_closure(command, all);
    const std::array accesses{memory_access{in.memory(), access_mode::read},
                              memory_access{out.memory(), access_mode::write}};
    on.launch({"pipelined_transform", accesses, location}, command);
}

template <typename Form, typename T, typename Function>
class pipelined_transform_operation : public operation_base<pipelined_transform_operation<Form, T, Function>> {
public:
    using output = tensor<T>;

    pipelined_transform_operation(Function function, tensor<T> in, const pipelined_options& options,
                                  source_location location)
        : function_(function), in_(std::move(in)), options_(options), location_(location) {}

    output submit(execution_context& context) && {
        tensor<T> out(context.stream(), in_.shape(), {"pipelined_transform", {}, location_});
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

// The operation: its output is a new tensor; the input is released after it.
template <typename Form, typename T, typename Function>
auto pipelined_transform(Form, Function function, tensor<T> in, const pipelined_options& options = {},
                         source_location location = source_location::current()) {
    return pipelined_transform_operation<Form, T, Function>(function, std::move(in), options, location);
}

}  // namespace SLUICE_LAUNCH_ABI
}  // namespace sluice

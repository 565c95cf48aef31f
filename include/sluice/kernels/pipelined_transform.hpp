// SPDX-License-Identifier: Apache-2.0
// pipelined_transform: out = f(in), batch by batch, where a block copies the next batches to shared memory while it
// computes on this one. Forms of that loop, for kernels of your own and for comparison (docs/pipelines.md says when
// each wins, with measurements):
//
//     plain_loads          a batch is loaded, then computed on: nothing overlaps inside a block
//     one_stage            cuda::pipeline with one stage: the copy needs no registers, but nothing overlaps either
//     two_stages           the next batch is copied while this one is computed on
//     n_stages<N>          the next N - 1 are
//     roles<N, Producers>  the first `Producers` threads of the block copy, the others compute
//     thread_scope<N>      each thread waits for its own copies, __syncthreads for the others'
//     primitives<N>        the same with the C primitives and zero fill at the ragged end
//     arrivals<N>          the C primitives, the copies arriving on a barrier in shared memory
//     bulk<N>              Hopper's bulk copies: one thread asks for a batch, a barrier counts its bytes
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
    unsigned threads = 256;          // of a block; for `roles`, producers and consumers together; at most 1024
    std::size_t batch_bytes = 8192;  // a multiple of 16; shared memory holds as many as the form has stages
    unsigned blocks = 0;             // 0: as many as the device runs at once with 48 KiB of shared memory each
};

inline namespace SLUICE_LAUNCH_ABI {

// The plain form: one command on a stream. `out` has the shape of `in` and is not it. Does not block. Throws, before
// anything is submitted, errc::shape_mismatch or errc::invalid_argument (options out of range; more shared memory than
// a block has); errc::unsupported for `bulk` on a GPU before sm_90 and for code that nvcc did not compile.
template <typename Form, typename T, typename Function>
void pipelined_transform(stream on, Form form, Function function, const tensor<T>& in, tensor<T>& out,
                         const pipelined_options& options = {}, source_location location = source_location::current()) {
    static_assert(std::is_trivially_copyable_v<Function>, "the function object is copied to the device byte by byte");
    const auto& gpu = on.owner().properties();
    const error_context context{"pipelined_transform", on.owner().name(), location};
    if (in.shape() != out.shape()) {
        throw error(errc::shape_mismatch, to_string(in.shape()) + " into " + to_string(out.shape()), context);
    }
    const bool on_gpu = on.owner().kind() == device_kind::cuda;
    const std::size_t shared_bytes = Form::stages * options.batch_bytes;
    if (options.threads < 32 || options.threads > 1024 || options.threads % 32 != 0 ||
        options.threads <= Form::producers || options.batch_bytes == 0 || options.batch_bytes % 16 != 0 ||
        (on_gpu && shared_bytes > gpu.max_shared_bytes_per_block - 1024)) {
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
    command.grid.x = static_cast<unsigned>(batches < most ? batches : most);
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

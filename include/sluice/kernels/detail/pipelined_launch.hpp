// SPDX-License-Identifier: Apache-2.0
// The checks and the sizes that the library's own launches of block pipelines have in common.
#pragma once

#include <cstddef>
#include <string_view>
#include <type_traits>

#include "sluice/base/error.hpp"
#include "sluice/base/source_location.hpp"
#include "sluice/kernels/pipelined_loops.hpp"
#include "sluice/runtime/execution_context.hpp"

namespace sluice::detail {

struct pipelined_extents {
    unsigned blocks;
    std::size_t shared_bytes;
};

// Throws errc::invalid_argument for options out of range, errc::unsupported for a form that the GPU lacks.
template <typename Form, typename T>
pipelined_extents pipelined_extent(stream on, std::size_t size, const pipelined_options& options, std::string_view name,
                                   source_location location) {
    static_assert(std::is_base_of_v<pipelined::form, Form>, "the form is one of pipelined_forms.hpp");
    static_assert(can_be_staged<T>, "a block pipeline copies trivially copyable elements of 1, 2, 4, 8 or 16 bytes");
    const auto& gpu = on.owner().properties();
    const error_context context{name, on.owner().name(), location};
    const bool on_gpu = on.owner().kind() == device_kind::cuda;
    const std::size_t most_shared = gpu.max_shared_bytes_per_block - 1024;  // the rest is the form's own
    const std::size_t shared_bytes = pipelined::shared_bytes<Form>(options.threads, options.batch_bytes);
    if (options.threads > 1024 || !Form::fits(options.threads) || options.batch_bytes == 0 ||
        options.batch_bytes % 16 != 0 ||
        (on_gpu && (options.batch_bytes > most_shared || shared_bytes > most_shared))) {
        throw error(errc::invalid_argument, "threads, batch or stages out of range", context);
    }
    if (on_gpu && Form::needs_hopper && gpu.compute_capability < 90) {
        throw error(errc::unsupported, "bulk copies need compute capability 9.0", context);
    }
    const std::size_t batch = options.batch_bytes / sizeof(T), pipelines = Form::pipelines(options.threads);
    const std::size_t batches = (size + batch - 1) / batch;
    const std::size_t blocks = (batches + pipelines - 1) / pipelines;
    const std::size_t most = options.blocks != 0 ? options.blocks : 4 * static_cast<std::size_t>(gpu.compute_units);
    return {static_cast<unsigned>(blocks < most ? blocks : most), shared_bytes};
}

}  // namespace sluice::detail

// SPDX-License-Identifier: Apache-2.0
// The launches of recurrent layers. Each has a form for the CPU, which the tests run.
#include <algorithm>
#include <vector>

#include "kernels/recurrent/recurrent_clusters.hpp"
#if defined(__CUDACC__)
#include "kernels/recurrent/recurrent_registers.cuh"
#endif
#include "sluice/base/half.hpp"
#include "sluice/runtime/detail/closure.hpp"

namespace sluice::kernels {
namespace {

constexpr unsigned most_threads = 512;  // of a block of a cluster
constexpr unsigned step_threads = 128;  // of a block of a kernel for one step

std::size_t divided_up(std::size_t a, std::size_t b) { return (a + b - 1) / b; }

// --- all steps -----------------------------------------------------------------------------------------------------

#if defined(__CUDACC__)
// Before sm_90 the code is empty: nothing launches it (has_code_for_clusters).
template <typename T, recurrent_kind Kind, unsigned Rows>
__global__ void __launch_bounds__(most_threads)
    recurrent_clusters_on_device([[maybe_unused]] const __grid_constant__ recurrent_clusters closure) {
#if __CUDA_ARCH__ >= 900
    extern __shared__ __align__(128) std::byte sluice_shared_memory[];
    const auto blocks = static_cast<unsigned>(closure.division.blocks);
    const block_cluster cluster({blockIdx.x / blocks, 0, 0}, {gridDim.x, 1, 1}, {blocks, 1, 1}, {blockDim.x, 1, 1},
                                sluice_shared_memory, 0);
    cluster.sync();  // no block writes into another one that has not begun
    recurrent_cluster<T, Kind, Rows>(closure, cluster).run();
#endif
}
#endif

template <typename T, recurrent_kind Kind, unsigned Rows>
void recurrent_clusters_on_host(const void* erased) {
    const auto& closure = *static_cast<const recurrent_clusters*>(erased);
    const recurrent_cluster_division& by = closure.division;
    const std::size_t step = divided_up(by.shared_bytes, 16) * 16;
    std::vector<recurrent_four<float>> scratch(step / sizeof(recurrent_four<float>) * by.blocks);
    const auto clusters = static_cast<unsigned>(by.groups * closure.call.directions);
    const auto blocks = static_cast<unsigned>(by.blocks);
    for (unsigned i = 0; i < clusters; ++i) {
        const block_cluster cluster({i, 0, 0}, {clusters * blocks, 1, 1}, {blocks, 1, 1},
                                    {static_cast<unsigned>(by.threads), 1, 1},
                                    reinterpret_cast<std::byte*>(scratch.data()), step);
        recurrent_cluster<T, Kind, Rows>(closure, cluster).run();
    }
}

// --- one step ------------------------------------------------------------------------------------------------------

template <typename T, recurrent_kind Kind, unsigned Rows>
SLUICE_KERNEL recurrent_group<T, Kind, Rows> group_of_steps(const recurrent_steps& of, std::size_t number) {
    return {of.call,
            of.floats,
            of.states + number * of.floats.count(),
            nullptr,
            number / of.groups,
            number % of.groups * Rows,
            0,
            0};
}

template <recurrent_kind Kind>
constexpr unsigned last_pass = passes_of(Kind) - 1;

// The work of a lane of the warp with this number.
template <typename T, recurrent_kind Kind, unsigned Rows, unsigned Pass>
SLUICE_KERNEL void recurrent_step_of_warp(const recurrent_steps& of, std::size_t warp, unsigned lane) {
    const auto its = group_of_steps<T, Kind, Rows>(of, warp / of.call.hidden);
    const std::size_t unit = warp % of.call.hidden;
    its.template run<Pass>(unit, of.step, lane, its.template input_of_lane<Pass>(unit, of.step, lane), 1,
                           [&](unsigned, std::size_t place, float value) { its.states[place] = value; });
    // The lane that has written a row's state reads it.
    if constexpr (Pass == last_pass<Kind>) its.write_y(unit, of.step, lane);
}

#if defined(__CUDACC__)
template <typename T, recurrent_kind Kind, unsigned Rows, unsigned Pass>
__global__ void __launch_bounds__(step_threads)
    recurrent_step_on_device(const __grid_constant__ recurrent_steps closure) {
    const std::size_t warp = (std::size_t{blockIdx.x} * step_threads + threadIdx.x) / lanes_of_warp;
    if (warp >= closure.call.directions * closure.groups * closure.call.hidden) return;
    recurrent_step_of_warp<T, Kind, Rows, Pass>(closure, warp, threadIdx.x % lanes_of_warp);
}
template <typename T, recurrent_kind Kind, unsigned Rows>
__global__ void __launch_bounds__(step_threads)
    recurrent_first_on_device(const __grid_constant__ recurrent_steps closure) {
    group_of_steps<T, Kind, Rows>(closure, blockIdx.x).fill(threadIdx.x, step_threads);
}
#endif

template <typename T, recurrent_kind Kind, unsigned Rows, unsigned Pass>
void recurrent_step_on_host(const void* erased) {
    const auto& closure = *static_cast<const recurrent_steps*>(erased);
    const std::size_t warps = closure.call.directions * closure.groups * closure.call.hidden;
    for (std::size_t warp = 0; warp < warps; ++warp) recurrent_step_of_warp<T, Kind, Rows, Pass>(closure, warp, 0);
}
template <typename T, recurrent_kind Kind, unsigned Rows>
void recurrent_first_on_host(const void* erased) {
    const auto& closure = *static_cast<const recurrent_steps*>(erased);
    for (std::size_t i = 0; i < closure.call.directions * closure.groups; ++i)
        group_of_steps<T, Kind, Rows>(closure, i).fill(0, 1);
}

// --- the kernels by number -----------------------------------------------------------------------------------------

struct recurrent_functions {
    const void* device = nullptr;
    void (*host)(const void* closure) = nullptr;
};

template <typename T, recurrent_kind Kind, unsigned Rows>
struct recurrent_kernels {
    static recurrent_functions clusters() {
        recurrent_functions made{nullptr, &recurrent_clusters_on_host<T, Kind, Rows>};
#if defined(__CUDACC__)
        made.device = reinterpret_cast<const void*>(&recurrent_clusters_on_device<T, Kind, Rows>);
#endif
        return made;
    }
    static recurrent_functions first() {
        recurrent_functions made{nullptr, &recurrent_first_on_host<T, Kind, Rows>};
#if defined(__CUDACC__)
        made.device = reinterpret_cast<const void*>(&recurrent_first_on_device<T, Kind, Rows>);
#endif
        return made;
    }
    template <unsigned Pass>
    static recurrent_functions step() {
        recurrent_functions made{nullptr, &recurrent_step_on_host<T, Kind, Rows, Pass>};
#if defined(__CUDACC__)
        made.device = reinterpret_cast<const void*>(&recurrent_step_on_device<T, Kind, Rows, Pass>);
#endif
        return made;
    }
};

// use(recurrent_kernels<...>()) of the call's type and kind, with these rows of a group.
template <typename T, unsigned Rows, typename Use>
recurrent_functions of_kind(recurrent_kind kind, const Use& use) {
    switch (kind) {
        case recurrent_kind::rnn: return use(recurrent_kernels<T, recurrent_kind::rnn, Rows>());
        case recurrent_kind::gru_reset_first: return use(recurrent_kernels<T, recurrent_kind::gru_reset_first, Rows>());
        case recurrent_kind::gru_reset_last: return use(recurrent_kernels<T, recurrent_kind::gru_reset_last, Rows>());
        case recurrent_kind::lstm: break;
    }
    return use(recurrent_kernels<T, recurrent_kind::lstm, Rows>());
}
template <unsigned Rows, typename Use>
recurrent_functions of_type(const recurrent_layer& call, const Use& use) {
    switch (call.type) {
        case recurrent_element::f16: return of_kind<half, Rows>(call.kind, use);
        case recurrent_element::bf16: return of_kind<bfloat16, Rows>(call.kind, use);
        case recurrent_element::f32: break;
    }
    return of_kind<float, Rows>(call.kind, use);
}

launch_command command_of(const recurrent_functions& functions, std::size_t blocks, unsigned threads) {
    launch_command made;
    made.device_function = functions.device;
    made.host_function = functions.host;
    made.grid.x = static_cast<unsigned>(blocks);
    made.block.x = threads;
    return made;
}

recurrent_floats floats_of(const recurrent_layer& call, std::size_t rows, std::size_t units) {
    return {rows, recurrent_floats::whole_fours(call.hidden), units,
            call.kind == recurrent_kind::gru_reset_first ? 1U : 0U};
}

}  // namespace

// --- the division --------------------------------------------------------------------------------------------------

std::optional<recurrent_cluster_division> divide_into_clusters(const recurrent_layer& call,
                                                               const device_properties& gpu, std::size_t rows,
                                                               std::size_t blocks) {
    recurrent_cluster_division made{};
    made.blocks = blocks;
    made.rows = rows;
    made.groups = divided_up(call.batch, rows);
    made.units = divided_up(call.hidden, blocks);
    made.floats = floats_of(call, rows, made.units);
    made.threads = lanes_of_warp * std::clamp<std::size_t>(made.units, 4, most_threads / lanes_of_warp);
    const std::size_t states = made.floats.count() * sizeof(float);
    const std::size_t of_unit = gates_of(call.kind) * made.floats.padded * bytes_of(call.type);
    if (states > gpu.max_shared_bytes_per_block) return {};
    made.kept = std::min(made.units, (gpu.max_shared_bytes_per_block - states) / of_unit);
    made.shared_bytes = states + made.kept * of_unit;
    return made;
}

namespace {

// Whether the program has code of clusters for this GPU. Older code, which newer GPUs take too, has none.
bool has_code_for_clusters([[maybe_unused]] const device_properties& gpu) {
#if defined(__CUDACC__)
    constexpr int compiled[] = {__CUDA_ARCH_LIST__};
    return std::ranges::any_of(compiled, [&](int each) { return each >= 900 && each <= 10 * gpu.compute_capability; });
#else
    return true;
#endif
}

}  // namespace

std::optional<recurrent_cluster_division> divide_into_clusters(const recurrent_layer& call,
                                                               const device_properties& gpu) {
    constexpr std::size_t most_blocks = 8;
    if (gpu.compute_capability < 90 || static_cast<std::size_t>(gpu.max_blocks_per_cluster) < most_blocks ||
        !has_code_for_clusters(gpu))
        return {};
    // As many as give each warp one unit.
    std::size_t blocks = 1;
    while (blocks < most_blocks && call.hidden > blocks * (most_threads / lanes_of_warp)) blocks *= 2;
    // One row where that gives all clusters a place at the same time, and where the states of more do not fit.
    const auto units = static_cast<std::size_t>(std::max(1, gpu.compute_units));
    const bool is_one = blocks * call.directions * call.batch <= units;
    std::optional<recurrent_cluster_division> made = divide_into_clusters(call, gpu, is_one ? 1 : 8, blocks);
    if (!made) made = divide_into_clusters(call, gpu, 1, blocks);
    // A multiprocessor reads about 60 bytes of the second cache in a clock. For this many it takes about as long as a
    // kernel for each step costs more than a cluster's wait.
    constexpr std::size_t most_read = 96 << 10;
    if (made &&
        (made->units - made->kept) * gates_of(call.kind) * made->floats.padded * bytes_of(call.type) > most_read)
        return {};
    return made;
}

recurrent_steps divide_into_steps(const recurrent_layer& call) {
    const std::size_t rows = call.batch == 1 ? 1 : 8;
    return {call, floats_of(call, rows, call.hidden), divided_up(call.batch, rows), 0, nullptr};
}

std::size_t floats_of_steps(const recurrent_steps& of) { return of.floats.count() * of.groups * of.call.directions; }

// --- in registers --------------------------------------------------------------------------------------------------

namespace {

struct recurrent_register_kernel {
    const void* function = nullptr;
    unsigned threads = 0;
    std::size_t most_hidden = 0, tiles = 0, shared_bytes = 0;
};

#if defined(__CUDACC__)
template <typename Shape>
recurrent_register_kernel register_kernel_of(const recurrent_layer& call) {
    const auto pointer = [](auto* kernel) { return reinterpret_cast<const void*>(kernel); };
    const bool is_rnn = call.kind == recurrent_kind::rnn;
    return {is_rnn ? pointer(&recurrent_registers_on_device<Shape, recurrent_kind::rnn>)
            : call.kind == recurrent_kind::lstm
                ? pointer(&recurrent_registers_on_device<Shape, recurrent_kind::lstm>)
                : pointer(&recurrent_registers_on_device<Shape, recurrent_kind::gru_reset_last>),
            recurrent_register_threads, Shape::most_hidden, Shape::tiles_of(call.hidden, is_rnn),
            Shape::shared_bytes(call.hidden)};
}
template <typename T>
recurrent_register_kernel short_register_kernel_of(const recurrent_layer& call, std::size_t rows) {
    return rows == 1 ? register_kernel_of<recurrent_register_shape<T, 1, 4>>(call)
                     : register_kernel_of<recurrent_register_shape<T, 8, 4>>(call);
}
recurrent_register_kernel register_kernel(const recurrent_layer& call, std::size_t rows) {
    if (call.type == recurrent_element::f16) return short_register_kernel_of<half>(call, rows);
    if (call.type == recurrent_element::bf16) return short_register_kernel_of<bfloat16>(call, rows);
    using narrow = recurrent_register_shape<float, 1, 4>;
    if (call.hidden <= narrow::most_hidden)
        return rows == 1 ? register_kernel_of<narrow>(call)
                         : register_kernel_of<recurrent_register_shape<float, 4, 4>>(call);
    return rows == 1 ? register_kernel_of<recurrent_register_shape<float, 1, 8>>(call)
                     : register_kernel_of<recurrent_register_shape<float, 4, 8>>(call);
}
constexpr std::size_t warps_of_register_block = recurrent_register_warps;
#else
recurrent_register_kernel register_kernel(const recurrent_layer&, std::size_t) { return {}; }
constexpr std::size_t warps_of_register_block = 8;
#endif

bool has_usual_activations(const recurrent_layer& call) {
    for (std::size_t d = 0; d < call.directions; ++d) {
        const auto is = [](const recurrent_activation& each, recurrent_curve what) {
            return each.what == what && each.clip == 0;
        };
        const bool is_rnn = call.kind == recurrent_kind::rnn;
        if (is_rnn ? !is(call.f[d], recurrent_curve::tanh) && !is(call.f[d], recurrent_curve::relu)
                   : !is(call.f[d], recurrent_curve::sigmoid) || !is(call.g[d], recurrent_curve::tanh))
            return false;
        if (call.kind == recurrent_kind::lstm && !is(call.out[d], recurrent_curve::tanh)) return false;
    }
    return true;
}

}  // namespace

recurrent_register_division divide_into_registers(const recurrent_layer& call, const device_properties& gpu) {
    constexpr std::size_t most_blocks = 8;
    if (gpu.compute_capability < 90 || static_cast<std::size_t>(gpu.max_blocks_per_cluster) < most_blocks ||
        !has_code_for_clusters(gpu) || call.kind == recurrent_kind::gru_reset_first || call.peepholes != nullptr ||
        !has_usual_activations(call))
        return {};
    // A group of more rows takes longer for a step: an H200, f16 and f32, 128 and 256 units.
    const bool is_short = bytes_of(call.type) == 2;
    const std::size_t more_rows = is_short ? 8 : 4;
    const double longer = is_short ? 1.85 : 2.7;
    recurrent_register_division made{};
    double best = 0;
    for (const std::size_t rows : {std::size_t{1}, more_rows}) {
        const recurrent_register_kernel kernel = register_kernel(call, rows);
        const std::size_t blocks = divided_up(kernel.tiles, warps_of_register_block);
        if (kernel.function == nullptr || call.hidden > kernel.most_hidden || blocks > most_blocks ||
            kernel.shared_bytes > gpu.max_shared_bytes_per_block)
            continue;
        // Clusters lie within a group of at most 18 multiprocessors.
        constexpr std::size_t of_group = 18;
        const auto units = static_cast<std::size_t>(std::max(1, gpu.compute_units));
        const std::size_t at_once =
            blocks == 1 ? units : std::max<std::size_t>(1, units / of_group) * (of_group / blocks);
        const std::size_t groups = divided_up(call.batch, rows);
        const double time =
            static_cast<double>(divided_up(groups * call.directions, at_once)) * (rows == 1 ? 1 : longer);
        if (made.blocks != 0 && time >= best) continue;
        made = {blocks, rows, groups, kernel.shared_bytes};
        best = time;
    }
    return made;
}

std::optional<recurrent_clusters> recurrent_in_one_kernel(const recurrent_layer& call, const device_properties& gpu) {
    recurrent_clusters made{call, {}, divide_into_registers(call, gpu)};
    std::optional<recurrent_cluster_division> by = divide_into_clusters(call, gpu);
    if (!by && made.registers.blocks != 0) by = divide_into_clusters(call, gpu, 1, 1);
    if (!by) return {};
    made.division = *by;
    return made;
}

// --- the commands --------------------------------------------------------------------------------------------------

launch_command recurrent_in_clusters(recurrent_clusters& closure) {
    const recurrent_cluster_division& by = closure.division;
    const auto use = [](auto kernels) { return kernels.clusters(); };
    const recurrent_functions functions = by.rows == 1 ? of_type<1>(closure.call, use) : of_type<8>(closure.call, use);
    launch_command made =
        command_of(functions, by.blocks * by.groups * closure.call.directions, static_cast<unsigned>(by.threads));
    made.cluster.x = static_cast<unsigned>(by.blocks);
    made.shared_bytes = by.shared_bytes;
    if (const recurrent_register_division& in = closure.registers; in.blocks != 0) {
        const recurrent_register_kernel kernel = register_kernel(closure.call, in.rows);
        made.device_function = kernel.function;
        made.grid.x = static_cast<unsigned>(in.blocks * in.groups * closure.call.directions);
        made.block.x = kernel.threads;
        made.cluster.x = static_cast<unsigned>(in.blocks);
        made.shared_bytes = in.shared_bytes;
    }
    sluice::detail::set_closure(made, closure);
    return made;
}

launch_command recurrent_first_states(recurrent_steps& closure) {
    const auto use = [](auto kernels) { return kernels.first(); };
    const recurrent_functions functions =
        closure.floats.rows == 1 ? of_type<1>(closure.call, use) : of_type<8>(closure.call, use);
    launch_command made = command_of(functions, closure.groups * closure.call.directions, step_threads);
    sluice::detail::set_closure(made, closure);
    return made;
}

launch_command recurrent_step_by_warps(recurrent_steps& closure, std::size_t pass) {
    const auto use = [&]<typename T, recurrent_kind Kind, unsigned Rows>(recurrent_kernels<T, Kind, Rows> kernels) {
        if constexpr (passes_of(Kind) == 2) {
            if (pass == 1) return kernels.template step<1>();
        }
        return kernels.template step<0>();
    };
    const recurrent_functions functions =
        closure.floats.rows == 1 ? of_type<1>(closure.call, use) : of_type<8>(closure.call, use);
    const std::size_t warps = closure.call.directions * closure.groups * closure.call.hidden;
    launch_command made = command_of(functions, divided_up(warps * lanes_of_warp, step_threads), step_threads);
    sluice::detail::set_closure(made, closure);
    return made;
}

}  // namespace sluice::kernels

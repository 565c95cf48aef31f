// SPDX-License-Identifier: Apache-2.0
// The launch of a row chain, and its form for a CPU, which the simulator and the tests run.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/row_chain/row_chain.hpp"
#if defined(__CUDACC__)
#include "kernels/row_chain/row_chain_device.cuh"
#endif
#include "sluice/base/half.hpp"
#include "sluice/kernels/activated.hpp"
#include "sluice/runtime/detail/closure.hpp"

namespace sluice::kernels {
namespace {

constexpr std::size_t rows_of_chain = 8, most_chain_blocks = 8;

template <typename T>
float chain_weight(const row_chain_call& of, const row_chain_layer& layer, std::size_t output, std::size_t input) {
    constexpr std::size_t of_lane = 16 / sizeof(T), chunk = 4 * of_lane;
    const std::size_t chunks = (layer.inputs + chunk - 1) / chunk, in_tile = output % 16;
    const std::size_t place = (output / 16 * chunks + input / chunk) * 2 + in_tile / 8;
    const std::size_t lane = in_tile % 8 * 4 + input % chunk / of_lane;
    return float(reinterpret_cast<const T*>(of.image + layer.weights)[(place * 32 + lane) * of_lane + input % of_lane]);
}

template <typename T>
void normalize_chain_row(const row_chain_call& of, const row_chain_layer& by, bool is_last, std::vector<float>& row) {
    const auto numbers = [&](std::uint64_t at) { return reinterpret_cast<const float*>(of.image + at); };
    double mean = 0, variance = 0;
    for (const float each : row) mean += each;
    mean /= static_cast<double>(row.size());
    for (const float each : row) variance += (each - mean) * (each - mean);
    const double factor = 1 / std::sqrt(variance / static_cast<double>(row.size()) + double{by.epsilon});
    for (std::size_t i = 0; i < row.size(); ++i) {
        float made = static_cast<float>((row[i] - mean) * factor) * numbers(by.scale)[i];
        if (by.shift != 0) made += numbers(by.shift)[i];
        row[i] = activated(made, static_cast<activation>(by.after_norm));
        if (!is_last) row[i] = float(T(row[i]));
    }
}

template <typename T>
void row_chain_on_host(const row_chain_call& of) {
    const auto& form = *reinterpret_cast<const row_chain_form*>(of.image);
    std::vector<float> row, next;
    for (std::size_t r = 0; r < of.rows; ++r) {
        row.resize(form.inputs());
        for (std::size_t i = 0; i < row.size(); ++i)
            row[i] = of.is_x_wide != 0 ? float(T(static_cast<const float*>(of.x)[r * row.size() + i]))
                                       : float(static_cast<const T*>(of.x)[r * row.size() + i]);
        for (std::size_t l = 0; l < form.count; ++l) {
            const row_chain_layer& layer = form.layers[l];
            next.assign(layer.outputs, 0.0f);
            for (std::size_t o = 0; o < next.size(); ++o) {
                float sum = 0;
                for (std::size_t i = 0; i < row.size(); ++i) sum += chain_weight<T>(of, layer, o, i) * row[i];
                if (layer.bias != 0) sum += reinterpret_cast<const float*>(of.image + layer.bias)[o];
                next[o] = float(T(activated(sum, static_cast<activation>(layer.after_product))));
            }
            if (layer.has_norm != 0) normalize_chain_row<T>(of, layer, l + 1 == form.count, next);
            std::swap(row, next);
        }
        std::copy(row.begin(), row.end(), of.y + r * row.size());
    }
}
void run_row_chain_on_host(const void* closure) {
    const auto& of = *static_cast<const row_chain_call*>(closure);
    switch (static_cast<io::dtype>(of.type)) {
        case io::dtype::f16: return row_chain_on_host<half>(of);
        case io::dtype::bf16: return row_chain_on_host<bfloat16>(of);
        default: return row_chain_on_host<float>(of);
    }
}

std::size_t chain_shared_bytes([[maybe_unused]] const row_chain_form& form) {
#if defined(__CUDACC__)
    const std::size_t element = static_cast<io::dtype>(form.type) == io::dtype::f32 ? 4 : 2;
    return row_chain_shared_bytes(form.widest(), form.number_bytes, element);
#else
    return 0;
#endif
}

// Whether the program has code of clusters for this GPU.
bool has_chain_code([[maybe_unused]] const device_properties& gpu) {
#if defined(__CUDACC__)
    constexpr int compiled[] = {__CUDA_ARCH_LIST__};
    return std::ranges::any_of(compiled, [&](int each) { return each >= 900 && each <= 10 * gpu.compute_capability; });
#else
    return false;
#endif
}

}  // namespace

bool has_row_chain(const row_chain_form& form, std::size_t rows, const device_properties& gpu) {
    // Each cluster reads all weights: beyond these a kernel for each layer is faster, and one for each norm later (an
    // H200, f16: 784-512-512-10, 200-192-...-192-4, and 128-256-256-16 with norms).
    constexpr std::size_t most_read = std::size_t{24} << 20;
    const bool has_norm = std::any_of(form.layers, form.layers + form.count,
                                      [](const row_chain_layer& each) { return each.has_norm != 0; });
    const std::size_t most_rows = has_norm ? 128 : 64;
    const std::size_t clusters = (rows + rows_of_chain - 1) / rows_of_chain;
    return gpu.compute_capability >= 90 && static_cast<std::size_t>(gpu.max_blocks_per_cluster) >= most_chain_blocks &&
           has_chain_code(gpu) && rows <= most_rows && clusters * form.weight_bytes() <= most_read &&
           chain_shared_bytes(form) <= gpu.max_shared_bytes_per_block;
}

namespace {

// Of a cluster: as many as have outputs of each layer that is sent.
std::size_t chain_blocks(const row_chain_form& form) {
    std::size_t blocks = most_chain_blocks;
    for (std::size_t i = 0; i < form.count; ++i) {
        const bool is_sent = i + 1 < form.count || form.layers[i].has_norm != 0;
        while (is_sent && blocks > (form.layers[i].outputs + 31) / 32 * 2) blocks /= 2;
    }
    return blocks;
}

}  // namespace

launch_command row_chain_command(const row_chain_form& form, const row_chain_data& data, row_chain_call& call) {
    call = {.first = form.layers[0],
            .type = form.type,
            .count = form.count,
            .widest = form.widest(),
            .numbers = form.numbers,
            .number_bytes = form.number_bytes,
            .image = data.image,
            .x = data.x,
            .y = data.y,
            .rows = data.rows,
            .is_x_wide = data.is_x_wide ? 1U : 0U,
            .blocks = chain_blocks(form)};
    launch_command made;
#if defined(__CUDACC__)
    const auto pointer = [](auto* kernel) { return reinterpret_cast<const void*>(kernel); };
    switch (static_cast<io::dtype>(form.type)) {
        case io::dtype::f16: made.device_function = pointer(&row_chain_on_device<half, 8>); break;
        case io::dtype::bf16: made.device_function = pointer(&row_chain_on_device<bfloat16, 8>); break;
        default:
            made.device_function =
                data.rows == 1 ? pointer(&row_chain_on_device<float, 1>) : pointer(&row_chain_on_device<float, 8>);
    }
    made.block.x = row_chain_threads;
    made.early_start = true;
#endif
    made.host_function = &run_row_chain_on_host;
    made.grid.x = static_cast<unsigned>((call.rows + rows_of_chain - 1) / rows_of_chain * call.blocks);
    made.cluster.x = static_cast<unsigned>(call.blocks);
    made.shared_bytes = chain_shared_bytes(form);
    sluice::detail::set_closure(made, call);
    return made;
}

}  // namespace sluice::kernels

// SPDX-License-Identifier: Apache-2.0
#include "kernels/rounded_layers/rounded_layers.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "kernels/rounded_layers/rounded_tables.hpp"
#include "kernels/rounded_layers/tile_permission.hpp"
#include "runtime/parallel_parts.hpp"
#include "sluice/runtime/stream.hpp"

namespace sluice::kernels {
namespace {

// Of all layers: the widest f32 outputs, and the most bytes of a row of rounded inputs.
struct row_sizes {
    std::size_t outputs = 0, input_bytes = 0;
};
row_sizes sizes_of(const rounded_form& form, const rounded_kernel& with) {
    row_sizes made;
    for (std::size_t i = 0; i < form.layers; ++i) {
        if (!with.rounds_outputs || i + 1 == form.layers)
            made.outputs = std::max(made.outputs, output_stride_of(with, form.features[i + 1]));
        made.input_bytes = std::max(made.input_bytes, aligned_bytes(row_bytes_of(with, form.type, form.features[i])));
    }
    return made;
}

std::size_t image_bytes_of(const rounded_form& form) {
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < form.layers; ++i)
        bytes += places_of(form.type, form.features[i], form.features[i + 1]).end;
    return bytes;
}

// Larger images of weights do not stay in the second cache. (Processors with AMX have 2 MiB.)
constexpr std::size_t near_weights = std::size_t{3} << 19;

// Scratch memory of one block of rows. `next` is for kernels that round outputs.
struct block_memory {
    std::byte* inputs;
    std::byte* next;
    float* outputs;
    row_quantity* quantities;
};
std::size_t quantity_bytes(const rounded_kernel& with) {
    return aligned_bytes(with.sharing.block * sizeof(row_quantity));
}
std::size_t input_bytes(const rounded_kernel& with, const row_sizes& sizes) {
    return with.sharing.block * sizes.input_bytes * (with.rounds_outputs ? 2 : 1);
}

constexpr std::size_t least_panels = 4;  // of a part that another worker may carry out

// A block of rows through all layers. The columns of a layer are divided among workers if there is enough to do.
class block_run {
public:
    block_run(const rounded_call& call, std::byte* scratch, bool divides)
        : call_(call), divides_(divides), has_far_weights_(image_bytes_of(call.form) > near_weights) {
        const row_sizes sizes = sizes_of(call.form, *call.with);
        memory_.quantities = reinterpret_cast<row_quantity*>(scratch);
        memory_.inputs = scratch + quantity_bytes(*call.with);
        memory_.next = memory_.inputs + call.with->sharing.block * sizes.input_bytes;
        memory_.outputs = reinterpret_cast<float*>(memory_.inputs + input_bytes(*call.with, sizes));
    }

    void operator()(std::size_t first, std::size_t rows) const {
        const rounded_form& form = call_.form;
        const rounded_kernel& with = *call_.with;
        const float* x = call_.x + first * form.features[0];
        std::size_t x_stride = form.features[0];
        std::byte *inputs = memory_.inputs, *next = memory_.next;
        const std::byte* image = call_.image;
        for (std::size_t i = 0; i < form.layers; ++i) {
            const std::size_t in = form.features[i], out = form.features[i + 1];
            const std::size_t row_bytes = row_bytes_of(with, form.type, in);
            if (i == 0 || !with.rounds_outputs)
                with.round_rows(x, x_stride, rows, in, row_bytes / with.element_bytes, inputs, memory_.quantities);
            const bool rounds = with.rounds_outputs && i + 1 != form.layers;
            multiply(i, rows, {inputs, row_bytes}, rounds ? next : nullptr, image);
            if (rounds) std::swap(inputs, next);
            x = memory_.outputs;
            x_stride = output_stride_of(with, out);
            image += places_of(form.type, in, out).end;
        }
        const std::size_t out = form.features[form.layers];
        for (std::size_t r = 0; r < rows; ++r)
            std::copy_n(memory_.outputs + r * x_stride, out, call_.out + (first + r) * out);
    }

private:
    struct rounded_rows {
        const std::byte* data;
        std::size_t row_bytes;
    };

    void multiply(std::size_t layer, std::size_t rows, rounded_rows inputs, std::byte* next,
                  const std::byte* image) const {
        const rounded_form& form = call_.form;
        const std::size_t in = form.features[layer], out = form.features[layer + 1];
        const std::size_t padded = padded_inputs(form.type, in), panels = panels_of_columns(out);
        const std::size_t panel_bytes = padded * rounded_panel * weight_bytes(form.type);
        const rounded_layer_places at = places_of(form.type, in, out);
        const rounded_sharing& sharing = call_.with->sharing;
        const std::size_t work = std::max(rows, sharing.counted_rows) * in * out;
        const std::size_t parts =
            divides_ ? sluice::detail::parts_for(work, sharing.least_products, panels / least_panels) : 1;
        sluice::detail::for_parts(parts, [&](std::size_t part) {
            const auto range = sluice::detail::range_of_part(panels, parts, part, least_panels);
            const std::size_t first_column = range.first * rounded_panel;
            call_.with->multiply({
                .rows = inputs.data,
                .row_bytes = inputs.row_bytes,
                .count = rows,
                .weights = image + range.first * panel_bytes,
                .groups = padded / group_of(form.type),
                .panels = range.last - range.first,
                .biases = reinterpret_cast<const float*>(image + at.biases) + first_column,
                .steps = reinterpret_cast<const float*>(image + at.steps) + first_column,
                .column_sums = reinterpret_cast<const std::int32_t*>(image + at.column_sums) + first_column,
                .quantities = memory_.quantities,
                .after = form.after[layer],
                .out = memory_.outputs + first_column,
                .out_stride = output_stride_of(*call_.with, out),
                .next = next != nullptr ? next + first_column * call_.with->element_bytes : nullptr,
                .next_bytes = row_bytes_of(*call_.with, form.type, out),
                .next_columns = std::min(out, range.last * rounded_panel) - first_column,
                .weights_are_far = has_far_weights_,
            });
        });
    }

    const rounded_call& call_;
    const bool divides_, has_far_weights_;
    block_memory memory_;
};

void run_on_host(const void* closure) { run_rounded_layers(*static_cast<const rounded_call*>(closure)); }

}  // namespace

std::span<const rounded_kernel> rounded_kernels(rounded_type type) {
    static const std::array<std::vector<rounded_kernel>, 3> all = [] {
        std::array<std::vector<rounded_kernel>, 3> made;
        const auto of = [&](rounded_type which) -> auto& { return made[static_cast<std::size_t>(which)]; };
        const auto add = [&](const rounded_table& table) {
            for (const auto which : {rounded_type::bf16, rounded_type::f16, rounded_type::int8})
                of(which).push_back(table[which]);
        };
#if defined(SLUICE_X86_VARIANTS)
        const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                                __builtin_cpu_supports("avx512vl");
        const bool has_bf16 = has_avx512 && __builtin_cpu_supports("avx512bf16");
        const bool has_vnni = has_avx512 && __builtin_cpu_supports("avx512vnni");
        if (has_bf16 && permission_for_tiles().bf16) of(rounded_type::bf16).push_back(rounded_amx_bf16());
        if (has_vnni && permission_for_tiles().int8) of(rounded_type::int8).push_back(rounded_amx_int8());
        if (has_bf16) of(rounded_type::bf16).push_back(rounded_avx512_bf16());
        if (has_vnni) of(rounded_type::int8).push_back(rounded_avx512_vnni());
        if (has_avx512) add(rounded_avx512());
        if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"))
            add(rounded_avx2());
#endif
        add(rounded_baseline());
        return made;
    }();
    return all[static_cast<std::size_t>(type)];
}

std::size_t rounded_scratch_bytes(const rounded_form& form, const rounded_kernel& with) noexcept {
    const row_sizes sizes = sizes_of(form, with);
    return quantity_bytes(with) + input_bytes(with, sizes) +
           with.sharing.block * aligned_bytes(sizes.outputs * sizeof(float));
}

void run_rounded_layers(const rounded_call& call) {
    const rounded_sharing& sharing = call.with->sharing;
    if (call.rows <= sharing.block) return block_run(call, call.scratch, true)(0, call.rows);
    std::size_t work = 0;
    for (std::size_t i = 0; i < call.form.layers; ++i)
        work += call.rows * call.form.features[i] * call.form.features[i + 1];
    // Each part reads all weights: where there are many rows, for whole blocks of them.
    const bool has_many = call.rows >= 8 * sharing.block;
    const std::size_t unit = has_many ? sharing.block : 4;
    const std::size_t parts = sluice::detail::parts_for(work, sharing.least_products,
                                                        call.rows / (has_many ? sharing.block : sharing.least_rows));
    sluice::detail::for_parts(parts, [&](std::size_t part) {
        thread_local aligned_memory mine;  // each part needs scratch memory of its own
        mine.grow(rounded_scratch_bytes(call.form, *call.with));
        const block_run run(call, mine.data(), false);
        const auto range = sluice::detail::range_of_part(call.rows, parts, part, unit);
        for (std::size_t first = range.first; first < range.last; first += sharing.block)
            run(first, std::min(sharing.block, range.last - first));
    });
}

void submit_rounded_layers(stream on, const tensor<float>& x, const rounded_form& form, const tensor<std::byte>& image,
                           tensor<float>& out) {
    submit_rounded_layers(on, x, form, image, out, rounded_kernels(form.type).front());
}

void submit_rounded_layers(stream on, const tensor<float>& x, const rounded_form& form, const tensor<std::byte>& image,
                           tensor<float>& out, const rounded_kernel& with) {
    if (x.rows() == 0) return;
    const storage_ref scratch = on.workspace(rounded_scratch_bytes(form, with));
    rounded_call call{.x = x.device_data(),
                      .out = out.device_data(),
                      .image = image.device_data(),
                      .scratch = static_cast<std::byte*>(scratch->data()),
                      .with = &with,
                      .rows = x.rows(),
                      .form = form};
    launch_command command;
    command.host_function = &run_on_host;
    detail::set_closure(command, call);
    const std::array accesses{
        memory_access{x.memory(), access_mode::read}, memory_access{image.memory(), access_mode::read},
        memory_access{out.memory(), access_mode::write}, memory_access{scratch.get(), access_mode::write}};
    on.launch({"rounded_layers", accesses, {}}, command);
}

}  // namespace sluice::kernels

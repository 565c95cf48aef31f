// SPDX-License-Identifier: Apache-2.0
#include "kernels/fused_mlp/fused_mlp_cpu.hpp"

#include <algorithm>
#include <bit>
#include <type_traits>

#include "kernels/fused_mlp/fused_mlp_dispatch.hpp"
#include "runtime/parallel_parts.hpp"
#include "runtime/parallel_phases.hpp"

namespace sluice::kernels {
namespace {

using sluice::detail::range_of_part;

// Products of numbers in a part: a microsecond of them, where threads take parts by one atomic operation each.
constexpr std::size_t products_of_part = std::size_t{128} * 1024;
// More than this number of parts are larger: 4 µs and more.
constexpr std::size_t most_small_parts = 4, products_of_large_part = std::size_t{512} * 1024;
// Of a part of a quantized network: 5 to 10 µs of them.
constexpr std::size_t products_of_locked_part = 500'000;
// With fewer, some 10 µs, no sleeping thread is worth its wake-up.
constexpr std::size_t products_of_wake_up = 1'300'000;
// A weight that comes from the third cache takes as long as this many products.
constexpr std::size_t products_of_far_weight = 5;
// Above this number the weights do not fit into the second cache of a core.
constexpr std::size_t weights_of_wide_network = std::size_t{256} * 1024;
// Above this number no core reads all weights, however many rows there are.
constexpr std::size_t weights_of_huge_network = std::size_t{2} * 1024 * 1024;
// Rows that make up for reading all weights, from the second cache or from farther away.
constexpr std::size_t least_rows_of_part = 4, least_rows_of_wide_part = 24;
// Rows of a block whose layers' columns are shared.
constexpr std::size_t rows_of_shared_block = 128;
// Rows of a block of a part, in narrow networks.
constexpr std::size_t rows_of_narrow_block = 64;

// The rows of a tile must not all fall into one set of the first cache.
constexpr std::size_t cache_period = 256;

// All layers' columns, in whole panels.
std::size_t stride_of(const detail::fused_mlp_form& form) noexcept {
    std::size_t widest = 0;
    for (std::size_t i = 1; i <= form.layers; ++i) widest = std::max<std::size_t>(widest, form.features[i]);
    return cpu_stride(widest);
}

std::size_t products_of_row(const detail::fused_mlp_form& form) noexcept {
    std::size_t products = 0;
    for (std::size_t i = 0; i < form.layers; ++i) products += std::size_t{form.features[i]} * form.features[i + 1];
    return products;
}

bool is_wide(const detail::fused_mlp_form& form) noexcept { return products_of_row(form) >= weights_of_wide_network; }

// As parts_for, but a power of two, so that two, four or eight threads get the same number of equal parts.
std::size_t even_parts_for(std::size_t work, std::size_t least, std::size_t pieces) {
    return std::bit_floor(sluice::detail::parts_for(work, least, pieces));
}

// How the work of some rows is divided.
struct division {
    bool by_rows;       // else the columns of each layer
    std::size_t parts;  // of the rows
    std::size_t rows;   // of a block that goes through all layers, at most
};
division division_of(std::size_t rows, const detail::fused_mlp_form& form) noexcept {
    const bool wide = is_wide(form);
    if (products_of_row(form) >= weights_of_huge_network) return {false, 1, std::min(rows, rows_of_shared_block)};
    const std::size_t work = rows * products_of_row(form);
    const std::size_t least = wide ? least_rows_of_wide_part : least_rows_of_part;
    const std::size_t few = std::min(most_small_parts, even_parts_for(work, products_of_part, rows / least));
    const std::size_t parts = std::max(few, even_parts_for(work, products_of_large_part, rows / rows_of_cpu_block));
    // The columns of few rows are worth more than a phase only where the weights are many.
    if (wide && parts == 1) return {false, 1, std::min(rows, rows_of_shared_block)};
    const std::size_t most = (rows + parts - 1) / parts;
    return {true, parts, std::min(most, wide ? rows_of_shared_block : rows_of_narrow_block)};
}

// For how many rows a block has memory: the same for all small numbers of them, so that a stream's workspace does not
// grow with each.
std::size_t room_of_block(std::size_t rows) noexcept {
    return rows <= rows_of_cpu_block ? rows_of_cpu_block : rows_of_shared_block;
}

// Two blocks of activations, and one for inputs of 16 bits.
std::size_t scratch_of_block(std::size_t rows, const detail::fused_mlp_form& form, bool is_f32) noexcept {
    return room_of_block(rows) * (2 * stride_of(form) + (is_f32 ? 0 : form.in_features));
}

// Rows that go through all layers together, and the memory that they need on their way.
template <typename T>
class block_of_rows {
public:
    block_of_rows(const fused_mlp_call& call, std::size_t first, std::size_t rows, float* scratch)
        : rows_(rows),
          stride_(stride_of(call.form)),
          in_(static_cast<const T*>(call.x) + first * call.form.in_features),
          out_(static_cast<T*>(call.out) + first * call.form.out_features),
          form_(call.form),
          activations_{scratch, scratch + rows * stride_},
          inputs_(scratch + 2 * rows * stride_) {}

    static constexpr bool enters = !std::is_same_v<T, float>;  // the inputs become floats first
    bool finishes() const noexcept { return !writes_outputs(); }
    std::size_t rows() const noexcept { return rows_; }

    // Some rows' inputs.
    void enter(std::size_t first, std::size_t last) const {
        const std::size_t in = form_.in_features;
        if constexpr (enters) std::copy(in_ + first * in, in_ + last * in, inputs_ + first * in);
    }

    // A layer; the caller sets its image, and may choose rows and panels.
    cpu_columns layer(std::size_t i) const {
        const bool is_last = i + 1 == form_.layers, to_outputs = is_last && writes_outputs();
        const std::size_t in = form_.features[i], columns = form_.features[i + 1];
        return {.x = i == 0 ? first_inputs() : activations_[(i - 1) % 2],
                .x_stride = i == 0 ? in : stride_,
                .rows = rows_,
                .image = nullptr,
                .in = in,
                .columns = columns,
                .after = form_.after[i],
                .out = to_outputs ? outputs() : activations_[i % 2],
                .out_stride = to_outputs ? columns : stride_,
                .first_panel = 0,
                .last_panel = panels_of(columns)};
    }

    // Some rows' outputs, from the activations of the last layer.
    void finish(const cpu_loops& loops, std::size_t first, std::size_t last) const {
        const std::size_t out = form_.out_features;
        float* const made = activations_[(form_.layers - 1) % 2] + first * stride_;
        if (form_.after[form_.layers - 1] == activation::softmax) loops.softmax(made, stride_, last - first, out);
        for (std::size_t row = first; row < last; ++row) {
            for (std::size_t c = 0; c < out; ++c) out_[row * out + c] = T(made[(row - first) * stride_ + c]);
        }
    }

private:
    bool writes_outputs() const noexcept { return !enters && form_.after[form_.layers - 1] != activation::softmax; }
    const float* first_inputs() const {
        if constexpr (enters)
            return inputs_;
        else
            return in_;
    }
    float* outputs() const {
        if constexpr (enters)
            return nullptr;
        else
            return out_;
    }

    const std::size_t rows_, stride_;
    const T* const in_;
    T* const out_;
    const detail::fused_mlp_form& form_;
    float* const activations_[2];
    float* const inputs_;
};

// One phase: each part has some rows, of which a block after the other goes through all layers.
template <typename T>
class shared_rows final : public sluice::detail::phased_work {
public:
    shared_rows(const cpu_loops& loops, const fused_mlp_call& call, const division& how)
        : loops_(loops),
          call_(call),
          how_(how),
          scratch_(scratch_of_block(how.rows, call.form, std::is_same_v<T, float>)) {}

    std::size_t parts(std::size_t) const noexcept override { return how_.parts; }
    std::size_t after(std::size_t phase) const noexcept override { return phase + 1; }
    void run(std::size_t, std::size_t part) const noexcept override {
        const auto all = range_of_part(call_.rows, how_.parts, part);
        run_rows(all.first, all.last, how_.rows, call_.scratch + part * scratch_);
    }
    // Higher blocks than those of small parts, in the memory of all parts.
    void run_all(std::size_t) const noexcept override {
        const std::size_t best = is_wide(call_.form) ? rows_of_shared_block : rows_of_narrow_block;
        run_rows(0, call_.rows, std::min(best, how_.parts * room_of_block(how_.rows)), call_.scratch);
    }

private:
    void run_rows(std::size_t first, std::size_t last, std::size_t most, float* scratch) const noexcept {
        const std::size_t size = last - first, blocks = (size + most - 1) / most;
        for (std::size_t i = 0; i < blocks; ++i) {
            const auto range = range_of_part(size, blocks, i);
            run_block({call_, first + range.first, range.last - range.first, scratch});
        }
    }
    void run_block(const block_of_rows<T>& block) const noexcept {
        if (block.enters) block.enter(0, block.rows());
        const float* image = static_cast<const float*>(call_.image);
        for (std::size_t i = 0; i < call_.form.layers; ++i) {
            cpu_columns layer = block.layer(i);
            layer.image = image;
            loops_.layer(layer);
            image += cpu_layer_floats(layer.in, layer.columns);
        }
        if (block.finishes()) block.finish(loops_, 0, block.rows());
    }

    const cpu_loops& loops_;
    const fused_mlp_call& call_;
    const division how_;
    const std::size_t scratch_;
};

// A block after the other; the steps of each are phases: its inputs as floats, if they are not, each layer, and its
// outputs, unless the last layer writes them. The parts of a layer are some of its columns, or of the rows where there
// are few columns.
template <typename T>
class shared_columns final : public sluice::detail::phased_work {
public:
    shared_columns(const cpu_loops& loops, const fused_mlp_call& call, const division& how)
        : loops_(loops), call_(call), blocks_((call.rows + how.rows - 1) / how.rows), steps_(call.form.layers + 2) {
        const float* image = static_cast<const float*>(call.image);
        for (std::size_t i = 0; i < call.form.layers; ++i) {
            images_[i] = image;
            image += cpu_layer_floats(call.form.features[i], call.form.features[i + 1]);
        }
    }

    std::size_t first() const noexcept { return first_step; }
    std::size_t end() const noexcept { return blocks_ * steps_ + first_step; }

    std::size_t parts(std::size_t phase) const noexcept override {
        const block_of_rows<T> block = block_of(phase);
        const std::size_t step = phase % steps_;
        if (is_layer(step)) return grid_of(block.layer(step - 1)).parts();
        return parts_of_rows(block.rows(), step == 0 ? call_.form.in_features : call_.form.out_features);
    }
    std::size_t after(std::size_t phase) const noexcept override {
        const std::size_t step = phase % steps_, next = phase - step + steps_ + first_step;
        const std::size_t last = block_of(phase).finishes() ? steps_ - 1 : steps_ - 2;
        return step == last ? next : phase + 1;
    }
    void run(std::size_t phase, std::size_t part) const noexcept override {
        const block_of_rows<T> block = block_of(phase);
        const std::size_t step = phase % steps_;
        if (is_layer(step)) return run_layer(block.layer(step - 1), images_[step - 1], part);
        const auto rows = range_of_part(block.rows(), parts(phase), part);
        if (step == 0) {
            block.enter(rows.first, rows.last);
        } else {
            block.finish(loops_, rows.first, rows.last);
        }
    }

private:
    static constexpr std::size_t first_step = block_of_rows<T>::enters ? 0 : 1;
    // Panels of a part are a multiple of this: the fewer rows there are, the more panels a tile has.
    static constexpr std::size_t panels_of_part(std::size_t rows) { return rows <= 6 ? 4 : 2; }
    // Numbers that are converted; each takes as long as some products.
    static std::size_t parts_of_rows(std::size_t rows, std::size_t columns) {
        return even_parts_for(rows * columns * 16, products_of_part, rows);
    }

    struct grid {
        std::size_t by_columns, by_rows;
        std::size_t parts() const noexcept { return by_columns * by_rows; }
    };
    static grid grid_of(const cpu_columns& layer) {
        const std::size_t panels = layer.last_panel, work = layer.in * panels * panel_columns;
        const std::size_t by_columns = even_parts_for(std::max(layer.rows, products_of_far_weight) * work,
                                                      products_of_part, panels / panels_of_part(layer.rows));
        if (by_columns > 1) return {by_columns, 1};
        return {1, even_parts_for(layer.rows * work, products_of_part, layer.rows / least_rows_of_part)};
    }

    bool is_layer(std::size_t step) const noexcept { return step != 0 && step != steps_ - 1; }
    block_of_rows<T> block_of(std::size_t phase) const noexcept {
        const auto range = range_of_part(call_.rows, blocks_, phase / steps_);
        return {call_, range.first, range.last - range.first, call_.scratch};
    }
    void run_layer(cpu_columns layer, const float* image, std::size_t part) const noexcept {
        const grid divided = grid_of(layer);
        const auto columns =
            range_of_part(layer.last_panel, divided.by_columns, part / divided.by_rows, panels_of_part(layer.rows));
        const auto rows = range_of_part(layer.rows, divided.by_rows, part % divided.by_rows);
        layer.image = image;
        layer.x += rows.first * layer.x_stride;
        layer.out += rows.first * layer.out_stride;
        layer.rows = rows.last - rows.first;
        layer.first_panel = columns.first;
        layer.last_panel = columns.last;
        loops_.layer(layer);
    }

    const cpu_loops& loops_;
    const fused_mlp_call& call_;
    const std::size_t blocks_, steps_;
    const float* images_[detail::most_fused_layers] = {};
};

template <typename T>
void run(const fused_mlp_call& call) {
    static const cpu_loops& loops = best_cpu_loops();
    const division how = division_of(call.rows, call.form);
    const auto wakes = call.rows * products_of_row(call.form) < products_of_wake_up
                           ? sluice::detail::team_wakes::now_and_then
                           : sluice::detail::team_wakes::always;
    if (how.by_rows) {
        sluice::detail::run_phases(shared_rows<T>(loops, call, how), 0, 1, wakes);
    } else {
        const shared_columns<T> work(loops, call, how);
        sluice::detail::run_phases(work, work.first(), work.end(), wakes);
    }
}

}  // namespace

const cpu_loops& best_cpu_loops() {
#if defined(SLUICE_X86_VARIANTS)
    if (__builtin_cpu_supports("avx512f")) return fused_mlp_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return fused_mlp_avx2;
#endif
    return fused_mlp_baseline;
}

std::size_t cpu_stride(std::size_t widest) noexcept {
    const std::size_t columns = panels_of(widest) * panel_columns;
    return columns % cache_period == 0 ? columns + panel_columns : columns;
}

std::size_t cpu_parts_of_rows(std::size_t rows, const detail::fused_mlp_form& form) noexcept {
    return sluice::detail::parts_for(rows * products_of_row(form), products_of_locked_part,
                                     (rows + rows_of_cpu_part - 1) / rows_of_cpu_part);
}

std::size_t fused_mlp_scratch_floats(std::size_t rows, const detail::fused_mlp_form& form, fused_type type) noexcept {
    const division how = division_of(rows, form);
    return how.parts * scratch_of_block(how.rows, form, type == fused_type::f32);
}

void fused_mlp_on_cpu(const fused_mlp_call& call, fused_type type) {
    switch (type) {
        case fused_type::f16: return run<half>(call);
        case fused_type::bf16: return run<bfloat16>(call);
        case fused_type::f32: return run<float>(call);
    }
}

}  // namespace sluice::kernels

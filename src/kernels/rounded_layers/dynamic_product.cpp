// SPDX-License-Identifier: Apache-2.0
#include "kernels/rounded_layers/dynamic_product.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/parallel_parts.hpp"
#include "sluice/runtime/stream.hpp"

namespace sluice::kernels {
namespace {

constexpr std::size_t least_panels = 4;   // of a part that another worker may carry out
constexpr std::size_t enough_blocks = 4;  // of rows: then a part has all columns of its blocks

// Rows and columns in units: some panels of one block of rows. A block's units follow one another.
struct units_of_product {
    std::size_t blocks, chunks, panels;

    explicit units_of_product(const dynamic_product& of)
        : blocks((of.rows + rounded_block - 1) / rounded_block),
          chunks(blocks >= enough_blocks ? 1 : (panels_of_columns(of.out_features) + least_panels - 1) / least_panels),
          panels(panels_of_columns(of.out_features)) {}

    std::size_t count() const { return blocks * chunks; }
    std::size_t first_panel(std::size_t chunk) const {
        return chunk == chunks ? panels : chunks == 1 ? 0 : chunk * least_panels;
    }
};

class product_part {
public:
    explicit product_part(const dynamic_product& of)
        : of_(of),
          with_(*of.with),
          row_bytes_(row_bytes_of(*of.with, rounded_type::int8, of.in_features)),
          places_(places_of(rounded_type::int8, of.in_features, of.out_features)) {
        quantities_.fill({*of.scale, *of.zero});
    }

    // Panels first to last of one block.
    void run(std::size_t block, std::size_t first, std::size_t last) {
        const std::size_t row = block * rounded_block, count = std::min(rounded_block, of_.rows - row);
        const std::size_t column = first * rounded_panel;
        const std::size_t columns = std::min(of_.out_features, last * rounded_panel) - column;
        const bool is_in_place = columns % rounded_panel == 0;  // whole panels are written
        const std::size_t stride = is_in_place ? of_.out_features : (last - first) * rounded_panel;
        float* const made = of_.y + row * of_.out_features + column;
        thread_local aligned_memory outputs;
        if (!is_in_place) outputs.grow(count * stride * sizeof(float));
        float* const out = is_in_place ? made : reinterpret_cast<float*>(outputs.data());
        const std::size_t panel_bytes = padded_inputs(rounded_type::int8, of_.in_features) * rounded_panel;
        with_.multiply({
            .rows = rows_of(row, count),
            .row_bytes = row_bytes_,
            .count = count,
            .weights = of_.image + first * panel_bytes,
            .groups = padded_inputs(rounded_type::int8, of_.in_features) / group_of(rounded_type::int8),
            .panels = last - first,
            .biases = reinterpret_cast<const float*>(of_.image + places_.biases) + column,
            .steps = reinterpret_cast<const float*>(of_.image + places_.steps) + column,
            .column_sums = reinterpret_cast<const std::int32_t*>(of_.image + places_.column_sums) + column,
            .quantities = quantities_.data(),
            .after = of_.after,
            .out = out,
            .out_stride = stride,
        });
        for (std::size_t r = 0; !is_in_place && r < count; ++r)
            std::copy_n(out + r * stride, columns, made + r * of_.out_features);
    }

private:
    // Where they are, unless the kernel wants more bytes from one to the next: then copied, with zeros after each.
    const std::byte* rows_of(std::size_t row, std::size_t count) {
        const auto* const from = reinterpret_cast<const std::byte*>(of_.x) + row * of_.in_features;
        if (row_bytes_ == of_.in_features) return from;
        thread_local aligned_memory rows;
        if (row == copied_) return rows.data();
        rows.grow(rounded_block * row_bytes_);
        for (std::size_t r = 0; r < count; ++r) {
            std::byte* const to = rows.data() + r * row_bytes_;
            std::memcpy(to, from + r * of_.in_features, of_.in_features);
            std::memset(to + of_.in_features, 0, row_bytes_ - of_.in_features);
        }
        copied_ = row;
        return rows.data();
    }

    const dynamic_product& of_;
    const rounded_kernel& with_;
    const std::size_t row_bytes_;
    const rounded_layer_places places_;
    std::array<row_quantity, rounded_block> quantities_;
    std::size_t copied_ = ~std::size_t{0};
};

void multiply_dynamic_on_host(const void* closure) {
    run_dynamic_product(*static_cast<const dynamic_product*>(closure));
}

}  // namespace

void run_dynamic_product(const dynamic_product& of) {
    const rounded_sharing& sharing = of.with->sharing;
    const units_of_product units(of);
    const std::size_t work = std::max(of.rows, sharing.counted_rows) * of.in_features * of.out_features;
    const std::size_t parts = sluice::detail::parts_for(work, sharing.least_products, units.count());
    sluice::detail::for_parts(parts, [&](std::size_t part) {
        product_part mine(of);
        const auto range = sluice::detail::range_of_part(units.count(), parts, part);
        for (std::size_t unit = range.first; unit < range.last;) {
            const std::size_t block = unit / units.chunks, first = unit % units.chunks;
            const std::size_t last = std::min(units.chunks, first + range.last - unit);
            mine.run(block, units.first_panel(first), units.first_panel(last));
            unit += last - first;
        }
    });
}

void submit_dynamic_product(stream on, storage& x, storage& scale, storage& zero, storage& image, storage& y,
                            dynamic_product of) {
    of.x = static_cast<const std::uint8_t*>(x.data());
    of.scale = static_cast<const float*>(scale.data());
    of.zero = static_cast<const std::uint8_t*>(zero.data());
    of.image = static_cast<const std::byte*>(image.data());
    of.y = static_cast<float*>(y.data());
    of.with = &rounded_kernels(rounded_type::int8).front();
    launch_command command;
    command.host_function = &multiply_dynamic_on_host;
    detail::set_closure(command, of);
    const std::array accesses{memory_access{&x, access_mode::read}, memory_access{&scale, access_mode::read},
                              memory_access{&zero, access_mode::read}, memory_access{&image, access_mode::read},
                              memory_access{&y, access_mode::write}};
    on.launch({"dynamic_product", accesses, {}}, command);
}

}  // namespace sluice::kernels

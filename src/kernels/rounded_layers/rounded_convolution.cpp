// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <vector>

#include "kernels/rounded_layers/rounded_layers.hpp"
#include "kernels/rounded_layers/window_rows.hpp"
#include "runtime/parallel_parts.hpp"
#include "sluice/runtime/stream.hpp"

namespace sluice::kernels {
namespace {

// Multiplications and additions in a part that another worker may carry out: some 50 µs. An element takes as long to
// copy as this many of them.
constexpr std::size_t least_work_of_part = std::size_t{2} << 20, products_of_copy = 16;

// The images of all groups, rounded and brought into the order of windows, and how they were rounded.
struct rounded_images {
    window_image as;
    std::byte* images;
    row_quantity* quantities;
};

std::size_t quantity_bytes_of(const convolution_form& form) {
    return aligned_bytes(form.images * form.groups * sizeof(row_quantity));
}

// One group's channels of one image are rounded as one row.
void round_image(const rounded_convolution& call, const rounded_images& to, std::size_t which) {
    const convolution_form& form = call.form;
    const std::size_t elements = to.as.channels * form.height * form.width;
    thread_local std::vector<std::byte> planes;
    if (planes.size() < elements * sizeof(float)) planes.resize(elements * sizeof(float));
    row_quantity& quantity = to.quantities[which];
    call.with->round_rows(call.x + which * elements, elements, 1, elements, elements, planes.data(), &quantity);
    std::byte* const image = to.images + which * to.as.bytes();
    switch (to.as.element_bytes) {
        case 1:
            return bring_channels_last(form, to.as, reinterpret_cast<const std::uint8_t*>(planes.data()),
                                       static_cast<unsigned char>(quantity.zero), image);
        case 2:
            return bring_channels_last(form, to.as, reinterpret_cast<const std::uint16_t*>(planes.data()), 0, image);
        default: return bring_channels_last(form, to.as, reinterpret_cast<const float*>(planes.data()), 0, image);
    }
}

// Some windows of one group of one image.
class window_block {
public:
    window_block(const rounded_convolution& call, const rounded_images& images)
        : call_(call),
          images_(images),
          form_(call.form),
          filters_(form_.filters / form_.groups),
          columns_(panels_of_columns(filters_) * rounded_panel),
          padded_(padded_inputs(call.type, form_.products())),
          row_bytes_(row_bytes_of(*call.with, call.type, form_.products())),
          places_(places_of(call.type, form_.products(), filters_)),
          inputs_(rounded_block * row_bytes_),
          outputs_(rounded_block * columns_) {}

    void run(std::size_t which, std::size_t first, std::size_t count) {
        const std::byte* const image = images_.images + which * images_.as.bytes();
        for (std::size_t i = 0; i < count; ++i)
            copy_window(form_, images_.as, image, first + i, inputs_.data() + i * row_bytes_);
        quantities_.fill(images_.quantities[which]);
        const std::byte* const layer = call_.image + which % form_.groups * places_.end;
        call_.with->multiply({
            .rows = inputs_.data(),
            .row_bytes = row_bytes_,
            .count = count,
            .weights = layer,
            .groups = padded_ / group_of(call_.type),
            .panels = columns_ / rounded_panel,
            .biases = reinterpret_cast<const float*>(layer + places_.biases),
            .steps = reinterpret_cast<const float*>(layer + places_.steps),
            .column_sums = reinterpret_cast<const std::int32_t*>(layer + places_.column_sums),
            .quantities = quantities_.data(),
            .after = activation::none,
            .out = outputs_.data(),
            .out_stride = columns_,
        });
        float* const to = call_.out + which * filters_ * form_.positions() + first;
        for (std::size_t f = 0; f < filters_; ++f)
            for (std::size_t i = 0; i < count; ++i) to[f * form_.positions() + i] = outputs_[i * columns_ + f];
    }

private:
    const rounded_convolution& call_;
    const rounded_images& images_;
    const convolution_form& form_;
    const std::size_t filters_, columns_, padded_, row_bytes_;  // of one group
    const rounded_layer_places places_;
    aligned_memory inputs_;
    std::vector<float> outputs_;
    std::array<row_quantity, rounded_block> quantities_;
};

void convolve_on_host(const void* closure) {
    run_rounded_convolution(*static_cast<const rounded_convolution*>(closure));
}

}  // namespace

// For kernels of elements of any size.
std::size_t rounded_convolution_scratch_bytes(const convolution_form& form) {
    return quantity_bytes_of(form) + form.images * form.groups * window_image_of(form, sizeof(float)).bytes();
}

void run_rounded_convolution(const rounded_convolution& call) {
    const convolution_form& form = call.form;
    const std::size_t images = form.images * form.groups;
    const rounded_images rounded{window_image_of(form, call.with->element_bytes),
                                 call.scratch + quantity_bytes_of(form), reinterpret_cast<row_quantity*>(call.scratch)};
    const std::size_t copied = images * rounded.as.height * rounded.as.width * rounded.as.channels;
    const std::size_t rounding_parts = sluice::detail::parts_for(copied * products_of_copy, least_work_of_part, images);
    sluice::detail::for_parts(rounding_parts, [&](std::size_t part) {
        const auto range = sluice::detail::range_of_part(images, rounding_parts, part);
        for (std::size_t which = range.first; which < range.last; ++which) round_image(call, rounded, which);
    });
    const std::size_t blocks = (form.positions() + rounded_block - 1) / rounded_block, units = images * blocks;
    const std::size_t work = images * form.positions() * form.products() * (form.filters / form.groups + 1);
    const std::size_t parts = sluice::detail::parts_for(work, least_work_of_part, units);
    sluice::detail::for_parts(parts, [&](std::size_t part) {
        window_block block(call, rounded);
        const auto range = sluice::detail::range_of_part(units, parts, part);
        for (std::size_t unit = range.first; unit < range.last; ++unit) {
            const std::size_t first = unit % blocks * rounded_block;
            block.run(unit / blocks, first, std::min(rounded_block, form.positions() - first));
        }
    });
}

void submit_rounded_convolution(stream on, const tensor<float>& x, const convolution_form& form, rounded_type type,
                                const tensor<std::byte>& image, tensor<float>& out) {
    const storage_ref scratch = on.workspace(rounded_convolution_scratch_bytes(form));
    rounded_convolution call{.x = x.device_data(),
                             .out = out.device_data(),
                             .image = image.device_data(),
                             .scratch = static_cast<std::byte*>(scratch->data()),
                             .with = &rounded_kernels(type).front(),
                             .form = form,
                             .type = type};
    launch_command command;
    command.host_function = &convolve_on_host;
    detail::set_closure(command, call);
    const std::array accesses{
        memory_access{x.memory(), access_mode::read}, memory_access{image.memory(), access_mode::read},
        memory_access{out.memory(), access_mode::write}, memory_access{scratch.get(), access_mode::write}};
    on.launch({"rounded_convolution", accesses, {}}, command);
}

}  // namespace sluice::kernels

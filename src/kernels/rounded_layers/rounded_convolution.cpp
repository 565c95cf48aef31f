// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <vector>

#include "kernels/rounded_layers/rounded_layers.hpp"
#include "runtime/parallel_parts.hpp"
#include "sluice/runtime/stream.hpp"

namespace sluice::kernels {
namespace {

// Multiplications and additions in a part that another worker may carry out: some 50 µs. A window's element takes as
// long to copy as this many of them.
constexpr std::size_t least_work_of_part = std::size_t{2} << 20, products_of_copy = 16;

// Some windows of one group of one image.
class window_block {
public:
    explicit window_block(const rounded_convolution& call)
        : call_(call),
          form_(call.form),
          filters_(form_.filters / form_.groups),
          columns_(panels_of_columns(filters_) * rounded_panel),
          padded_(padded_inputs(call.type, form_.products())),
          places_(places_of(call.type, form_.products(), filters_)),
          windows_(rounded_block * form_.products()),
          inputs_(rounded_block * padded_ * call.with->element_bytes),
          outputs_(rounded_block * columns_) {}

    void run(std::size_t image, std::size_t group, std::size_t first, std::size_t count) {
        const std::size_t channels = form_.channels / form_.groups, pixels = form_.height * form_.width;
        const float* const planes = call_.x + (image * form_.channels + group * channels) * pixels;
        for (std::size_t i = 0; i < count; ++i) copy_window(planes, first + i, windows_.data() + i * form_.products());
        call_.with->round_rows(windows_.data(), form_.products(), count, form_.products(), padded_, inputs_.data(),
                               quantities_.data());
        multiply(group, count);
        float* const to = call_.out + (image * form_.filters + group * filters_) * form_.positions() + first;
        for (std::size_t f = 0; f < filters_; ++f)
            for (std::size_t i = 0; i < count; ++i) to[f * form_.positions() + i] = outputs_[i * columns_ + f];
    }

private:
    void copy_window(const float* planes, std::size_t position, float* to) const {
        const std::size_t top = position / form_.out_width * form_.stride.height,
                          left = position % form_.out_width * form_.stride.width;
        for (std::size_t c = 0; c < form_.channels / form_.groups; ++c) {
            for (std::size_t r = 0; r < form_.filter_height; ++r) {
                // Below 0 these wrap to large numbers, which are outside as well.
                const std::size_t y = top + r * form_.dilation.height - form_.padding.height;
                const float* const line = planes + (c * form_.height + (y < form_.height ? y : 0)) * form_.width;
                for (std::size_t s = 0; s < form_.filter_width; ++s) {
                    const std::size_t x = left + s * form_.dilation.width - form_.padding.width;
                    *to++ = y < form_.height && x < form_.width ? line[x] : 0.0f;
                }
            }
        }
    }

    void multiply(std::size_t group, std::size_t count) {
        const std::byte* const layer = call_.image + group * places_.end;
        call_.with->multiply({
            .rows = inputs_.data(),
            .row_bytes = padded_ * call_.with->element_bytes,
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
    }

    const rounded_convolution& call_;
    const convolution_form& form_;
    const std::size_t filters_, columns_, padded_;  // of one group
    const rounded_layer_places places_;
    std::vector<float> windows_;
    std::vector<std::byte> inputs_;
    std::vector<float> outputs_;
    std::array<row_quantity, rounded_block> quantities_;
};

void convolve_on_host(const void* closure) {
    run_rounded_convolution(*static_cast<const rounded_convolution*>(closure));
}

}  // namespace

void run_rounded_convolution(const rounded_convolution& call) {
    const convolution_form& form = call.form;
    const std::size_t blocks = (form.positions() + rounded_block - 1) / rounded_block;
    const std::size_t units = form.images * form.groups * blocks;
    const std::size_t windows = form.images * form.groups * form.positions();
    const std::size_t work = windows * form.products() * (form.filters / form.groups + products_of_copy);
    const std::size_t parts = sluice::detail::parts_for(work, least_work_of_part, units);
    sluice::detail::for_parts(parts, [&](std::size_t part) {
        window_block block(call);
        const auto range = sluice::detail::range_of_part(units, parts, part);
        for (std::size_t unit = range.first; unit < range.last; ++unit) {
            const std::size_t first = unit % blocks * rounded_block, rest = unit / blocks;
            block.run(rest / form.groups, rest % form.groups, first, std::min(rounded_block, form.positions() - first));
        }
    });
}

void submit_rounded_convolution(stream on, const tensor<float>& x, const convolution_form& form, rounded_type type,
                                const tensor<std::byte>& image, tensor<float>& out) {
    rounded_convolution call{.x = x.device_data(),
                             .out = out.device_data(),
                             .image = image.device_data(),
                             .with = &rounded_kernels(type).front(),
                             .form = form,
                             .type = type};
    launch_command command;
    command.host_function = &convolve_on_host;
    detail::set_closure(command, call);
    const std::array accesses{memory_access{x.memory(), access_mode::read},
                              memory_access{image.memory(), access_mode::read},
                              memory_access{out.memory(), access_mode::write}};
    on.launch({"rounded_convolution", accesses, {}}, command);
}

}  // namespace sluice::kernels

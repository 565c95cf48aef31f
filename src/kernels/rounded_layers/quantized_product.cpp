// SPDX-License-Identifier: Apache-2.0
#include "kernels/rounded_layers/quantized_product.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "kernels/rounded_layers/window_rows.hpp"
#include "runtime/parallel_parts.hpp"
#include "sluice/runtime/stream.hpp"

namespace sluice::kernels {
namespace {

// Multiplications and additions in a part that another worker may carry out, some 50 µs; and how many of them take as
// long as to copy an element of a window.
constexpr std::size_t work_of_part = std::size_t{2} << 20, work_of_copy = 16;

// Signed bytes become unsigned ones, which the kernels take: all, with the zero point, are 128 larger.
std::uint8_t flip_of(const quantized_form& numbers) { return numbers.x_type == io::dtype::i8 ? 0x80 : 0; }
std::int32_t zero_of(const quantized_form& numbers) { return numbers.x_zero + flip_of(numbers); }

// One group's channels of one image, in the order of windows.
void bring_image(const quantized_call& call, const window_image& as, std::size_t which) {
    const convolution_form& form = call.form;
    const std::size_t elements = as.channels * form.height * form.width;
    const auto* const from = reinterpret_cast<const std::uint8_t*>(call.x) + which * elements;
    const std::uint8_t flip = flip_of(call.numbers);
    thread_local std::vector<std::uint8_t> planes;
    planes.resize(std::max(planes.size(), elements));
    for (std::size_t i = 0; i < elements; ++i) planes[i] = from[i] ^ flip;
    bring_channels_last(form, as, planes.data(), static_cast<unsigned char>(zero_of(call.numbers)),
                        call.scratch + which * as.bytes());
}

// Of a thread: calls that come again make no memory. A block is done before the thread begins another one.
struct block_memory {
    aligned_memory windows, outputs;
};
block_memory& memory_of_thread() {
    thread_local block_memory mine;
    return mine;
}

// Some windows of one group of one image, or some rows of a product.
class quantized_block {
public:
    quantized_block(const quantized_call& call, const window_image& as)
        : call_(call),
          as_(as),
          form_(call.form),
          filters_(form_.filters / form_.groups),
          columns_(panels_of_columns(filters_) * rounded_panel),
          padded_(padded_inputs(rounded_type::int8, form_.products())),
          row_bytes_(row_bytes_of(*call.with, rounded_type::int8, form_.products())),
          places_(places_of(rounded_type::int8, form_.products(), filters_)) {
        block_memory& memory = memory_of_thread();
        memory.windows.grow(rounded_block * row_bytes_);
        memory.outputs.grow(rounded_block * columns_ * sizeof(float));
        windows_ = memory.windows.data();
        outputs_ = reinterpret_cast<float*>(memory.outputs.data());
        // What is after a window's elements meets weights of 0; it may be of another convolution.
        for (std::size_t i = 0; i < rounded_block; ++i)
            std::memset(windows_ + i * row_bytes_ + form_.products(), 0, row_bytes_ - form_.products());
        quantities_.fill({call.numbers.x_scale, zero_of(call.numbers)});
    }

    void run(std::size_t which, std::size_t first, std::size_t count) {
        const std::byte* const image = call_.scratch + which * as_.bytes();
        for (std::size_t i = 0; i < count; ++i) copy_window(form_, as_, image, first + i, windows_ + i * row_bytes_);
        multiply(which % form_.groups, count);
        const auto place = [&](std::size_t f, std::size_t i) {
            return (which * filters_ + f) * form_.positions() + first + i;
        };
        if (gives_numbers()) {
            auto* const y = reinterpret_cast<float*>(call_.y);
            for (std::size_t f = 0; f < filters_; ++f)
                for (std::size_t i = 0; i < count; ++i) y[place(f, i)] = outputs_[i * columns_ + f];
            return;
        }
        // In place: a byte is written where no number follows that is still to be read.
        const auto bytes_of = [&](std::size_t i) { return reinterpret_cast<std::byte*>(outputs_ + i * columns_); };
        for (std::size_t i = 0; i < count; ++i) quantize(i, bytes_of(i));
        for (std::size_t f = 0; f < filters_; ++f)
            for (std::size_t i = 0; i < count; ++i) call_.y[place(f, i)] = bytes_of(i)[f];
    }

    // Rows of a product: images of one pixel.
    void run_rows(std::size_t first, std::size_t count) {
        const auto* const x = reinterpret_cast<const std::uint8_t*>(call_.x) + first * form_.channels;
        const std::uint8_t flip = flip_of(call_.numbers);
        for (std::size_t i = 0; i < count; ++i) {
            auto* const row = reinterpret_cast<std::uint8_t*>(windows_ + i * row_bytes_);
            for (std::size_t k = 0; k < form_.channels; ++k) row[k] = x[i * form_.channels + k] ^ flip;
        }
        multiply(0, count);
        for (std::size_t i = 0; i < count; ++i) {
            const std::size_t at = (first + i) * filters_;
            if (gives_numbers()) {
                std::memcpy(call_.y + at * sizeof(float), outputs_ + i * columns_, filters_ * sizeof(float));
            } else {
                quantize(i, call_.y + at);
            }
        }
    }

private:
    void multiply(std::size_t group, std::size_t count) {
        const std::byte* const layer = call_.image + group * places_.end;
        call_.with->multiply({
            .rows = windows_,
            .row_bytes = row_bytes_,
            .count = count,
            .weights = layer,
            .groups = padded_ / group_of(rounded_type::int8),
            .panels = columns_ / rounded_panel,
            .biases = reinterpret_cast<const float*>(layer + places_.biases),
            .steps = reinterpret_cast<const float*>(layer + places_.steps),
            .column_sums = reinterpret_cast<const std::int32_t*>(layer + places_.column_sums),
            .quantities = quantities_.data(),
            .after = call_.numbers.after,
            .out = outputs_,
            .out_stride = columns_,
        });
    }

    bool gives_numbers() const { return call_.numbers.y_type == io::dtype::f32; }
    // One row of outputs. Signed bytes are 128 less than what is rounded.
    void quantize(std::size_t row, std::byte* to) const {
        const quantized_form& numbers = call_.numbers;
        const bool is_signed = numbers.y_type == io::dtype::i8;
        float* const quotients = outputs_ + row * columns_;
        const float inverse = 1 / numbers.y_scale;
        for (std::size_t i = 0; i < filters_; ++i) quotients[i] *= inverse;
        call_.with->quantize(quotients, filters_, {1, numbers.y_zero + (is_signed ? 128 : 0)}, to);
        if (!is_signed) return;
        for (std::size_t i = 0; i < filters_; ++i) to[i] ^= std::byte{0x80};
    }

    const quantized_call& call_;
    const window_image& as_;
    const convolution_form& form_;
    const std::size_t filters_, columns_, padded_, row_bytes_;  // of one group
    const rounded_layer_places places_;
    std::byte* windows_;
    float* outputs_;
    std::array<row_quantity, rounded_block> quantities_;
};

void multiply_on_host(const void* closure) { run_quantized_product(*static_cast<const quantized_call*>(closure)); }

// Scale and zero point are null, or where they are. Sets the addresses of `call`, but for scratch memory.
void submit_call(stream on, storage& x, storage* scale, storage* zero, storage& image, storage& y,
                 quantized_call call) {
    const std::size_t bytes = quantized_scratch_bytes(call.form);
    const storage_ref scratch = bytes != 0 ? on.workspace(bytes) : storage_ref();
    call.x = static_cast<const std::byte*>(x.data());
    call.y = static_cast<std::byte*>(y.data());
    call.image = static_cast<const std::byte*>(image.data());
    call.scratch = bytes != 0 ? static_cast<std::byte*>(scratch->data()) : nullptr;
    call.with = &rounded_kernels(rounded_type::int8).front();
    std::vector<memory_access> accesses{{&x, access_mode::read}, {&image, access_mode::read}, {&y, access_mode::write}};
    if (scale != nullptr) {
        call.x_scale = static_cast<const float*>(scale->data());
        call.x_zero = static_cast<const std::uint8_t*>(zero->data());
        accesses.push_back({scale, access_mode::read});
        accesses.push_back({zero, access_mode::read});
    }
    if (bytes != 0) accesses.push_back({scratch.get(), access_mode::write});
    launch_command command;
    command.host_function = &multiply_on_host;
    detail::set_closure(command, call);
    on.launch({"quantized_product", accesses, {}}, command);
}

}  // namespace

std::vector<integer_layer> layers_of_groups(const integer_layer& whole, std::size_t groups) {
    const auto outputs = static_cast<std::ptrdiff_t>(whole.out_features / groups);
    const auto size = outputs * static_cast<std::ptrdiff_t>(whole.in_features);
    std::vector<integer_layer> made;
    for (std::ptrdiff_t g = 0; g < static_cast<std::ptrdiff_t>(groups); ++g) {
        const auto some = [&](const auto& from, std::ptrdiff_t count) {
            return std::decay_t<decltype(from)>(from.begin() + g * count, from.begin() + (g + 1) * count);
        };
        made.push_back({whole.in_features,
                        static_cast<std::size_t>(outputs),
                        some(whole.weight, size),
                        some(whole.steps, outputs),
                        {}});
        if (!whole.bias.empty()) made.back().bias = some(whole.bias, outputs);
    }
    return made;
}

std::vector<std::byte> integer_image(const std::vector<integer_layer>& layers) {
    std::vector<std::byte> image;
    for (const integer_layer& layer : layers) {
        const std::size_t in = layer.in_features, padded = padded_inputs(rounded_type::int8, in);
        const rounded_layer_places at = places_of(rounded_type::int8, in, layer.out_features);
        const std::size_t first = image.size();
        image.resize(first + at.end);
        std::byte* const to = image.data() + first;
        for (std::size_t c = 0; c < layer.out_features; ++c) {
            std::byte* const panel = to + c / rounded_panel * padded * rounded_panel;
            std::int32_t sum = 0;
            for (std::size_t k = 0; k < in; ++k) {
                const std::int8_t q = layer.weight[c * in + k];
                panel[(k / 4 * rounded_panel + c % rounded_panel) * 4 + k % 4] = static_cast<std::byte>(q);
                sum += q;
            }
            std::memcpy(to + at.steps + c * sizeof(float), &layer.steps[c], sizeof(float));
            std::memcpy(to + at.column_sums + c * sizeof(sum), &sum, sizeof(sum));
        }
        if (!layer.bias.empty()) std::memcpy(to + at.biases, layer.bias.data(), layer.bias.size() * sizeof(float));
    }
    return image;
}

// Rows of a product are images of one pixel, of which many are one block.
bool is_product(const convolution_form& form) {
    return form.positions() == 1 && form.height * form.width == 1 && form.groups == 1 &&
           form.filter_height * form.filter_width == 1 && form.padding.height + form.padding.width == 0;
}

std::size_t quantized_scratch_bytes(const convolution_form& form) {
    return is_product(form) ? 0 : form.images * form.groups * window_image_of(form, 1).bytes();
}

void run_quantized_product(const quantized_call& given) {
    quantized_call call = given;
    if (call.x_scale != nullptr) {
        call.numbers.x_scale = *call.x_scale;
        call.numbers.x_zero = *call.x_zero;
    }
    const convolution_form& form = call.form;
    const bool has_rows = is_product(form);
    const window_image as = window_image_of(form, 1);
    const std::size_t images = form.images * form.groups;
    if (!has_rows) {
        const std::size_t copies = images * as.height * as.width * as.channels * work_of_copy;
        const std::size_t parts = sluice::detail::parts_for(copies, work_of_part, images);
        sluice::detail::for_parts(parts, [&](std::size_t part) {
            const auto range = sluice::detail::range_of_part(images, parts, part);
            for (std::size_t which = range.first; which < range.last; ++which) bring_image(call, as, which);
        });
    }
    const std::size_t rows = has_rows ? form.images : form.positions();
    const std::size_t blocks = (rows + rounded_block - 1) / rounded_block;
    const std::size_t units = has_rows ? blocks : images * blocks;
    const std::size_t work = images * form.positions() * form.products() * (form.filters / form.groups + 1);
    const std::size_t parts = sluice::detail::parts_for(work, work_of_part, units);
    sluice::detail::for_parts(parts, [&](std::size_t part) {
        quantized_block block(call, as);
        const auto range = sluice::detail::range_of_part(units, parts, part);
        for (std::size_t unit = range.first; unit < range.last; ++unit) {
            const std::size_t first = unit % blocks * rounded_block, count = std::min(rounded_block, rows - first);
            has_rows ? block.run_rows(first, count) : block.run(unit / blocks, first, count);
        }
    });
}

void submit_quantized_product(stream on, storage& x, const convolution_form& form, const quantized_form& numbers,
                              const tensor<std::byte>& image, storage& y) {
    quantized_call call{};
    call.form = form;
    call.numbers = numbers;
    submit_call(on, x, nullptr, nullptr, *image.memory(), y, call);
}

void submit_dynamic_convolution(stream on, storage& x, storage& scale, storage& zero, const convolution_form& form,
                                activation after, storage& image, storage& y) {
    quantized_call call{};
    call.form = form;
    call.numbers = {.x_type = io::dtype::u8, .y_type = io::dtype::f32, .after = after};
    submit_call(on, x, &scale, &zero, image, y, call);
}

}  // namespace sluice::kernels

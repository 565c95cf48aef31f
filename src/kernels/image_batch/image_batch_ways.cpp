// SPDX-License-Identifier: Apache-2.0
#include "kernels/image_batch/image_batch_ways.hpp"

#include <cstdint>
#include <limits>

namespace sluice::kernels {
namespace {

constexpr std::size_t most_products = 8, most_convolutions = 10;

// The bytes at multiples of which all the elements of a value's pixels begin.
std::size_t alignment_of(const image_step& step) {
    std::size_t common = 8;
    const auto note = [&](const image_place& place) {
        for (const std::size_t each : {place.first, place.image, place.row, place.pixel})
            while (each % common != 0) common /= 2;
    };
    note(step.from);
    note(step.to);
    if (step.has_also) note(step.also);
    return common * short_bytes;
}

bool is_by_pixel(const image_step& step) {
    const image_window& window = step.window;
    const size_2d one{1, 1}, no{0, 0};
    return window.size == one && window.stride == one && window.before == no && window.after == no && step.groups == 1;
}
// Whether the rows of all images follow each other.
bool is_dense(const image_place& place, const image_size& size, std::size_t images) {
    return place.row == size.width * place.pixel && (images == 1 || place.image == size.height * place.row);
}

std::optional<cuda::pixel_product> product_of(const image_step& step, std::size_t images, short_type type) {
    if (step.what != image_work::convolve) return {};
    const filter_form filter = filter_form_of(step);
    if (!is_by_pixel(step) || filter.channels != step.in.channels || filter.filters != step.out.channels) return {};
    if (!is_dense(step.from, step.in, images) || !is_dense(step.to, step.out, images)) return {};
    if (step.has_also && !is_dense(step.also, step.out, images)) return {};
    return cuda::pixel_product{.is_bf16 = type == short_type::bf16,
                               .rows = images * step.out.height * step.out.width,
                               .inner = step.in.channels,
                               .columns = step.out.channels,
                               .x_pixel = step.from.pixel,
                               .addend_pixel = step.has_also ? step.also.pixel : 0,
                               .out_pixel = step.to.pixel,
                               .alignment = alignment_of(step),
                               .has_addend = step.has_also,
                               .has_relu = has_relu(step)};
}

std::optional<cuda::fused_convolution> convolution_of(const image_step& step, std::size_t images, short_type type,
                                                      bool has_end) {
    if (step.what != image_work::convolve) return {};
    const filter_form filter = filter_form_of(step);
    if (filter.channels * step.groups != step.in.channels || filter.filters != step.out.channels) return {};
    const auto count = [](std::size_t each) { return static_cast<std::int64_t>(each); };
    const auto steps = [&](const image_place& place) {
        return cuda::image_steps{count(place.image), count(place.row), count(place.pixel)};
    };
    const image_window& window = step.window;
    cuda::fused_convolution made;
    made.is_bf16 = type == short_type::bf16;
    made.images = count(images);
    made.channels = count(step.in.channels);
    made.height = count(step.in.height);
    made.width = count(step.in.width);
    made.filters = count(step.out.channels);
    made.filter_channels = count(filter.channels);
    made.filter_height = count(window.size.height);
    made.filter_width = count(window.size.width);
    made.out_height = count(step.out.height);
    made.out_width = count(step.out.width);
    const auto pair = [&](std::int64_t(&to)[2], const size_2d& from) {
        to[0] = count(from.height);
        to[1] = count(from.width);
    };
    pair(made.stride, window.stride);
    pair(made.dilation, window.dilation);
    pair(made.before, window.before);
    pair(made.after, window.after);
    made.x = steps(step.from);
    made.out = steps(step.to);
    made.alignment = count(alignment_of(step));
    if (!has_end) return made;
    made.has_bias = true;
    made.has_addend = step.has_also;
    if (step.has_also) made.addend = steps(step.also);
    made.has_relu = has_relu(step);
    return made;
}

}  // namespace

namespace {

// The step as it reads what a multiplication before it reads.
image_step with_input(image_step step, const image_step& multiplication) {
    step.from = multiplication.from;
    return step;
}

}  // namespace

bool has_relu(const image_step& step) {
    return !step.curve && step.has_bounds && step.least == 0 && step.most == std::numeric_limits<float>::infinity();
}

std::string convolution_way::text() const {
    std::string made = "kernel";
    if (tile) made = "tiles of " + tile->text();
    if (is_gated) made += ", with the multiplication before it";
    if (joined > 1)
        made = "one kernel for " + std::to_string(joined) + " steps, blocks of an image: " + std::to_string(blocks);
    if (is_done) made = "in another step's kernel";
    if (product != nullptr) made = "cuBLASLt";
    if (convolution != nullptr) made = cuda::fused_convolutions::text(*convolution);
    if (ends_apart) made += ", then a kernel";
    return made;
}

std::size_t convolution_way::workspace_bytes() const {
    if (product != nullptr) return cuda::pixel_products::workspace_bytes;
    return convolution != nullptr ? cuda::fused_convolutions::workspace_bytes(*convolution) : 0;
}

bool can_be_gated(const image_step& multiplication, const image_step& convolution) {
    return multiplication.what == image_work::multiply && multiplication.also_spread == image_spread::pixels &&
           multiplication.only_next_reads && !multiplication.curve && !multiplication.has_bounds &&
           multiplication.out == multiplication.in && convolution.from.first == multiplication.to.first &&
           convolution.in == multiplication.out && multiplication.also.first % 8 == 0 &&
           !(convolution.has_also && convolution.also.first == multiplication.to.first) &&
           multiplication.also.image % 8 == 0 && !convolution_tiles_for(convolution).empty() &&
           !convolution_tiles_for(with_input(convolution, multiplication)).empty();
}

step_key key_of(const image_step& step, std::size_t images, short_type type, bool has_gate) {
    const bool has_other_end = step.curve || (step.has_bounds && !has_relu(step));
    return {product_of(step, images, type), convolution_of(step, images, type, true), has_other_end, has_gate,
            !convolution_tiles_for(step).empty()};
}

std::vector<convolution_way> ways_of(const step_key& key, const image_step& step, std::size_t images, short_type type,
                                     const batch_libraries& libraries, bool is_late) {
    const std::size_t products = is_late ? 1 : most_products, convolutions = is_late ? 1 : most_convolutions;
    std::vector<convolution_way> found;
    // More work than this is better done by the libraries.
    constexpr double most_tiled = 4e9;
    const double work = 2.0 * static_cast<double>(images * step.out.elements() * step.window.size.height *
                                                  step.window.size.width * step.in.channels);
    // (No library has transposed convolutions here.)
    if (step.what == image_work::convolve_transposed || (work < most_tiled && !is_late)) {
        for (const convolution_tile& each : convolution_tiles_for(step)) {
            found.emplace_back();
            found.back().tile = each;
            if (!std::get<3>(key)) continue;
            found.push_back(found.back());
            found.back().is_gated = true;
        }
    }
    if (std::get<0>(key)) {
        for (auto& each : libraries.products.plans(*std::get<0>(key), products)) {
            found.emplace_back();
            found.back().product = std::move(each);
        }
    }
    if (!std::get<1>(key) || (is_late && !found.empty())) return found;
    const std::size_t others = found.size();
    for (auto& each : libraries.convolutions.plans(*std::get<1>(key), convolutions)) {
        found.emplace_back();
        found.back().convolution = std::move(each);
    }
    if (found.size() != others || std::get<0>(key)) return found;
    for (auto& each : libraries.convolutions.plans(*convolution_of(step, images, type, false), convolutions)) {
        found.emplace_back();
        found.back().convolution = std::move(each);
        found.back().ends_apart = true;
    }
    return found;
}

}  // namespace sluice::kernels

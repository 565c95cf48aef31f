// SPDX-License-Identifier: Apache-2.0
#include "kernels/channels_last/image_program.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "kernels/channels_last/image_loops.hpp"
#include "kernels/channels_last/image_step_run.hpp"
#include "kernels/channels_last/scratch_places.hpp"
#include "runtime/parallel_parts.hpp"
#include "runtime/parallel_phases.hpp"

namespace sluice::kernels {
namespace {

using sluice::detail::for_parts;

// The rows of a band, too: they are written and read once.
constexpr std::size_t floats_of_band = std::size_t{128} << 10;

// The steps of an image, or of several together. Those that are carried out side by side, or band by band, are one
// phase; its number is that of the first one.
class image_phases final : public sluice::detail::phased_work {
public:
    image_phases(std::span<const image_call> images, const image_loops& loops)
        : images_(images), steps_(images[0].steps, images[0].count), loops_(loops) {}

    std::size_t after(std::size_t phase) const noexcept override {
        if (steps_[phase].has_bands) return phase + 2;
        std::size_t next = phase + 1;
        while (next < steps_.size() && steps_[next].is_side_by_side) ++next;
        return next;
    }
    std::size_t parts(std::size_t phase) const noexcept override {
        if (steps_[phase].has_bands) return bands_of(steps_[phase], steps_[phase + 1], steps_[phase].to.row).count;
        std::size_t most = 0;
        for (std::size_t i = phase, end = after(phase); i < end; ++i)
            most = std::max(most, step(images_[0], i).parts());
        return most;
    }
    void run(std::size_t phase, std::size_t part) const noexcept override {
        if (steps_[phase].has_bands) {
            for (const image_call& image : images_)
                image_step_run::run_band(image, steps_[phase], steps_[phase + 1], loops_, part);
            return;
        }
        // A part has the same share of each step: about the same rows.
        const std::size_t all = parts(phase);
        for (std::size_t i = phase, end = after(phase); i < end; ++i) {
            if (images_.size() > 1 && steps_[i].what == image_work::convolve && is_by_filters(steps_[i])) {
                image_step_run::convolve_together(images_, steps_[i], loops_, part, all);
            } else {
                for (const image_call& image : images_) step(image, i)(part, all);
            }
        }
    }

private:
    image_step_run step(const image_call& image, std::size_t number) const {
        return image_step_run(image, steps_[number], loops_);
    }

    const std::span<const image_call> images_;
    const std::span<const image_step> steps_;
    const image_loops& loops_;
};

void run_steps(std::span<const image_call> images, std::size_t first, std::size_t end, const image_loops& with) {
    if (first < end) sluice::detail::run_phases(image_phases(images, with), first, end);
}

// How many images a worker takes together: two, whose values are in its second cache next to a panel of weights; one,
// where there are not two for each worker. It changes no result.
constexpr std::size_t most_together = 2;
std::size_t images_together(const image_call& call) {
    if (call.tail.first == 0 || call.tail.first == call.count) return 1;
    const sluice::detail::part_runner* const runner = sluice::detail::current_part_runner();
    return std::clamp<std::size_t>(call.images / (runner != nullptr ? runner->threads() : 1), 1, most_together);
}

// Images one after the other up to the tail, each in the first one's memory; then the tail of all together.
void run_group(image_call first, std::size_t count, const image_loops& with) {
    std::array<image_call, most_together> images;
    const std::size_t tail = count > 1 ? first.tail.first : first.count;
    for (std::size_t i = count; i-- > 0;) {
        images[i] = first;
        images[i].first_image += i;
        run_steps({&images[i], 1}, 0, tail, with);
        if (i == 0) break;
        images[i].scratch += i * first.scratch_floats;
        std::copy(first.scratch + first.tail.begin, first.scratch + first.tail.end,
                  images[i].scratch + first.tail.begin);
    }
    run_steps(std::span(images).first(count), tail, first.count, with);
}

}  // namespace

image_bands bands_of(const image_step& convolution, const image_step& pooling, std::size_t floats_of_row) {
    constexpr std::size_t usual_count = 8;  // a worker that joins late has something to do
    const std::size_t rows = pooling.out.height;
    const std::size_t parts = parts_for(convolution.out.elements() * products_of_filter(convolution), least_image_work,
                                        std::min(rows, usual_count));
    if (parts < 2) return {};
    std::size_t of_band = (rows + parts - 1) / parts;
    while (of_band > 1 && rows_between(pooling, of_band) * floats_of_row > floats_of_band) --of_band;
    const std::size_t count = (rows + of_band - 1) / of_band;
    const image_bands made{count, rows_between(pooling, (rows + count - 1) / count)};
    const std::size_t most_rows = convolution.out.height + convolution.out.height / 8;
    return count * made.rows > most_rows ? image_bands{} : made;
}

std::vector<const image_loops*> known_image_loops() {
    std::vector<const image_loops*> known;
#if defined(SLUICE_X86_VARIANTS)
    if (__builtin_cpu_supports("avx512f")) known.push_back(&image_loops_avx512);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) known.push_back(&image_loops_avx2);
#endif
    known.push_back(&image_loops_baseline);
    return known;
}

void run_image_program(const image_call& call) {
    static const image_loops& best = *known_image_loops().front();
    run_image_program(call, best);
}

void run_image_program(const image_call& call, const image_loops& with) {
    if (call.images == 1) return run_steps({&call, 1}, 0, call.count, with);
    const std::size_t together = images_together(call), groups = (call.images + together - 1) / together;
    const std::size_t parts = std::min(groups, most_at_once(call.images) / together);
    scratch_places<> places;
    for_parts(parts, [&](std::size_t part) {
        const std::size_t place = places.take();
        image_call first = call;
        first.scratch += place * together * call.scratch_floats;
        const part_range range = range_of_part(groups, parts, part);
        for (std::size_t group = range.first; group < range.last; ++group) {
            first.first_image = call.first_image + group * together;
            run_group(first, std::min(together, call.images - group * together), with);
        }
        places.give_back(place);
    });
}

}  // namespace sluice::kernels

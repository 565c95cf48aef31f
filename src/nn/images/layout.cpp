// SPDX-License-Identifier: Apache-2.0
#include "nn/images/layout.hpp"

#include <algorithm>
#include <utility>

#include "kernels/image_batch/image_batch.hpp"
#include "nn/images/resampling_of.hpp"
#include "nn/images/shapes.hpp"
#include "nn/passes/steps.hpp"

namespace sluice::nn::detail {
namespace {

using kernels::image_border;
using kernels::image_place;
using kernels::image_size;
using kernels::image_step;
using kernels::image_work;

// Images of one dimension are those of a height of 1.
bool is_image(const any_tensor& x) {
    return x.type() == io::dtype::f32 && (x.shape().size() == 4 || x.shape().size() == 3) && x.elements() != 0;
}
// Of one of its images.
image_size size_of(const any_tensor& x) {
    const auto& shape = x.shape();
    return {shape[1], shape.size() == 3 ? 1 : shape[2], shape.back()};
}

class layout_maker {
public:
    layout_maker(const prepared_graph& in, const image_recipe& recipe, const std::filesystem::path& path,
                 std::span<const any_tensor> inputs, image_style style)
        : in_(in),
          recipe_(recipe),
          path_(path),
          are_together_(style == image_style::together),
          shapes_(image_shapes(in, path, inputs)),
          values_(in.slots),
          windows_(recipe.works.size()) {}

    std::optional<image_layout> make() {
        rank_ = shapes_[in_.inputs[0]].shape().size();
        if (!std::ranges::all_of(recipe_.works, [&](const recipe_work& each) { return fits(each); })) return {};
        for (const slot each : in_.inputs)
            if (!is_image(shapes_[each])) return {};
        images_ = shapes_[in_.inputs[0]].shape()[0];
        for (const slot each : in_.inputs)
            if (shapes_[each].shape()[0] != images_) return {};
        for (const recipe_work& each : recipe_.works)
            if (shapes_[each.output].shape()[0] != images_) return {};
        is_turned_ = is_one_column();
        find_windows();
        find_parts();
        join_concatenations();
        if (!find_roots()) return {};
        write_steps();
        find_only_readers();
        find_phases();
        if (are_together_ ? !can_be_counted() : !is_worth_its_memory()) return {};
        image_layout made;
        made.images = images_;
        made.scratch_elements = place_roots();
        for (image_step& each : steps_) {
            for (image_place* const place : {&each.from, &each.to, &each.also}) resolve(*place);
            if (each.also_spread == kernels::image_spread::pixels) each.also.row = each.also.pixel = 0;
        }
        made.steps = std::move(steps_);
        for (const slot each : in_.outputs) made.outputs.push_back(shapes_[each]);
        return made;
    }

private:
    struct value {
        bool is_used = false;
        bool has_parts = false;  // it is a concatenation, or others are some of its channels
        bool is_padded = false;
        slot parent = no_slot;    // it is some channels of this one
        std::size_t channel = 0;  // of the parent, then of the root
        slot root = no_slot;
        // Of roots.
        image_border border = {};
        std::size_t first_use = ~std::size_t{0}, last_use = 0;  // steps
        std::size_t rows_of_bands = 0;                          // if it is in memory for bands
        std::size_t place = 0, floats = 0;
    };

    image_size size(slot of) const {
        image_size made = size_of(shapes_[of]);
        if (is_turned_) std::swap(made.height, made.width);
        return made;
    }
    // With the channels that it has in memory, if those that are added are 0.
    image_size size_in_memory(slot of) const {
        image_size made = size(of);
        if (values_[of].is_padded) made.channels = kernels::padded_channels(made.channels);
        return made;
    }
    bool fills_memory(slot of) const {
        return size_in_memory(of).channels == kernels::padded_channels(size(of).channels);
    }

    // --- whether the recipe fits ---

    bool fits(const recipe_work& work) const {
        const auto is_one = [&](slot each) { return is_image(shapes_[each]) && shapes_[each].shape().size() == rank_; };
        if (!is_one(work.output) || !std::ranges::all_of(work.inputs, is_one)) return false;
        const image_size out = size(work.output), in = size(work.inputs[0]);
        if (work.also != no_slot) {
            if (!is_one(work.also) || !is_one(before_sum(work))) return false;
            if (is_own_sum(work) && pair_of(before_sum(work), work.also, out).first == no_slot) return false;
        }
        if (work.is_concatenation) return true;  // the operator has compared them
        if (work.is_part) {
            return out.height == in.height && out.width == in.width &&
                   first_channel_of(work) + out.channels <= in.channels;
        }
        if (work.shuffled_groups != 0 && (!is_split(work) || shapes_[work.split].shape()[1] != work.shuffled_groups))
            return false;
        switch (work.what) {
            case image_work::scale:
                return in == out && work.channels == out.channels && (work.rank == 0 || work.rank == rank_);
            case image_work::copy: return in == out;
            case image_work::resample:
            case image_work::maximum:
            case image_work::average: return in.channels == out.channels;
            case image_work::add:
            case image_work::multiply: return pair_of(work).first != no_slot;
            case image_work::shuffle: return in == out && is_split(work);
            default: return true;
        }
    }

    // What an addition or a multiplication takes: the first value has all elements.
    struct value_pair {
        slot first = no_slot, second = no_slot;  // none, where the values do not fit
        kernels::image_spread spread = kernels::image_spread::none;
    };
    value_pair pair_of(const recipe_work& work) const {
        return pair_of(work.inputs[0], work.inputs[1], size(work.output));
    }
    value_pair pair_of(slot a, slot b, const image_size& out) const {
        using kernels::image_spread;
        for (const auto& [first, second] : {std::pair{a, b}, std::pair{b, a}}) {
            if (size(first) != out) continue;
            const image_size other = size(second);
            if (other == out) return value_pair{first, second, image_spread::none};
            if (other == image_size{out.channels, 1, 1}) return value_pair{first, second, image_spread::pixels};
            if (other == image_size{1, out.height, out.width}) return value_pair{first, second, image_spread::channels};
        }
        return {};
    }
    bool is_split(const recipe_work& work) const {
        const image_size out = size(work.output);
        const auto& split = shapes_[work.split].shape();
        return split.size() == 5 && split[0] == shapes_[work.output].shape()[0] &&
               split[1] * split[2] == out.channels && split[3] == out.height && split[4] == out.width;
    }

    // What a convolution gives before it is added to another value.
    slot before_sum(const recipe_work& convolution) const { return in_.steps[convolution.step].outputs[0]; }
    // Whether one of the two is repeated in the sum: then the addition is a step of its own.
    bool is_own_sum(const recipe_work& work) const {
        return work.also != no_slot &&
               (size(before_sum(work)) != size(work.output) || size(work.also) != size(work.output));
    }
    std::size_t first_channel_of(const recipe_work& part) const {
        std::size_t channel = part.first_channel;
        for (const slot each : part.parts_before) channel += shapes_[each].shape()[1];
        return channel;
    }

    // --- images of one column ---

    // The loops take neighbouring pixels of a row together, of which images of one column have none. In memory their
    // rows are one row, as those of the filters are: so such images are computed as images of one row.
    bool is_one_column() {
        if (are_together_ || rank_ != 4) return false;
        const auto is_column = [&](slot each) { return size_of(shapes_[each]).width == 1; };
        return std::ranges::all_of(recipe_.works, [&](const recipe_work& work) {
            if (!is_column(work.output) || !std::ranges::all_of(work.inputs, is_column)) return false;
            if (work.what == image_work::shuffle || work.what == image_work::resample) return false;
            return !is_convolution(work) || is_of_one_column(window_of(work));
        });
    }
    static bool is_of_one_column(const kernels::image_window& window) {
        return window.size.width == 1 && window.before.width == 0 && window.after.width == 0;
    }
    static kernels::image_window turned(kernels::image_window window) {
        for (size_2d* const each : {&window.size, &window.stride, &window.dilation, &window.before, &window.after})
            std::swap(each->height, each->width);
        return window;
    }

    // --- windows and the borders they need ---

    static bool is_convolution(const recipe_work& work) {
        return work.what == image_work::convolve || work.what == image_work::convolve_channels ||
               work.what == image_work::convolve_transposed;
    }
    // As the operator has it.
    kernels::image_window window_of(const recipe_work& work) {
        return image_window_of(in_.steps[work.step], size_of(shapes_[work.inputs[0]]), path_, shapes_);
    }
    void find_windows() {
        for (std::size_t i = 0; i < recipe_.works.size(); ++i) {
            const recipe_work& work = recipe_.works[i];
            if (!is_convolution(work) && work.what != image_work::maximum && work.what != image_work::average) continue;
            windows_[i] = is_turned_ ? turned(window_of(work)) : window_of(work);
            if (is_convolution(work)) need_border(work, windows_[i]);
        }
    }

    void need_border(const recipe_work& work, const kernels::image_window& window) {
        if (are_together_) return;
        const slot to = is_own_sum(work) ? before_sum(work) : work.output;
        const image_border read = kernels::border_read_by(window, size(work.inputs[0]), size(to));
        widen(values_[work.inputs[0]].border, read);
    }
    static void widen(image_border& border, const image_border& by) {
        border.top = std::max(border.top, by.top);
        border.left = std::max(border.left, by.left);
        border.bottom = std::max(border.bottom, by.bottom);
        border.right = std::max(border.right, by.right);
    }

    // --- which value is a part of which ---

    void find_parts() {
        for (const recipe_work& work : recipe_.works) {
            if (!work.is_part) continue;
            values_[work.inputs[0]].has_parts = true;
            values_[work.output].parent = work.inputs[0];
            values_[work.output].channel = first_channel_of(work);
        }
    }
    // A value becomes a part of the last concatenation that it can be a part of.
    void join_concatenations() {
        for (std::size_t i = recipe_.works.size(); i-- > 0;) {
            const recipe_work& work = recipe_.works[i];
            if (!work.is_concatenation) continue;
            std::size_t channel = 0;
            values_[work.output].has_parts = true;
            for (const slot each : work.inputs) {
                if (values_[each].parent == no_slot) {
                    values_[each].parent = work.output;
                    values_[each].channel = channel;
                }
                channel += size(each).channels;
            }
        }
    }

    bool find_roots() {
        constexpr std::size_t most_rows = 256;
        for (slot each = 0; each < values_.size(); ++each) {
            value& of = values_[each];
            of.root = each;
            std::size_t channel = 0;
            while (values_[of.root].parent != no_slot) {
                channel += values_[of.root].channel;
                of.root = values_[of.root].parent;
            }
            of_root_[each] = channel;
            image_border& border = values_[of.root].border;
            widen(border, of.border);
            for (const std::size_t rows : {border.top, border.bottom})
                if (rows > most_rows) return false;
            for (const std::size_t columns : {border.left, border.right})
                if (columns > most_rows && size(of.root).height != 1) return false;
        }
        return true;
    }

    // --- steps ---

    // The place within the root; `first` is the value until resolve() replaces it.
    image_place placed(slot of) {
        image_place made;
        made.first = of;
        return made;
    }

    void use(slot of) {
        value& root = values_[values_[of].root];
        root.is_used = true;
        root.first_use = std::min(root.first_use, steps_.size());
        root.last_use = std::max(root.last_use, steps_.size());
    }

    // `pads`: whether the step writes zeros to the channels that are added to `to`.
    image_step& begin(image_work what, slot from, slot to, bool pads) {
        use(from);
        use(to);
        if (pads && are_together_ && values_[to].parent == no_slot && !values_[to].has_parts)
            values_[to].is_padded = true;
        image_step made{};
        made.what = what;
        made.from = placed(from);
        made.to = placed(to);
        made.also = placed(from);
        made.in = what == image_work::enter || what == image_work::shuffle ? size(from) : size_in_memory(from);
        made.out = what == image_work::leave ? size(to) : size_in_memory(to);
        made.border = values_[values_[to].root].border;
        return steps_.emplace_back(made);
    }

    void write_steps() {
        for (std::size_t i = 0; i < in_.inputs.size(); ++i)
            begin(image_work::enter, in_.inputs[i], in_.inputs[i], true).outside = static_cast<std::uint32_t>(i);
        for (std::size_t i = 0; i < recipe_.works.size(); ++i) {
            if (recipe_.works[i].is_part) continue;
            if (recipe_.works[i].is_concatenation) {
                copy_others(recipe_.works[i]);
            } else {
                write_step(recipe_.works[i], windows_[i]);
            }
        }
        for (std::size_t i = 0; i < recipe_.outputs.size(); ++i) {
            begin(image_work::leave, recipe_.outputs[i], recipe_.outputs[i], false).outside =
                static_cast<std::uint32_t>(in_.inputs.size() + i);
        }
    }

    // Filters of zeros give zeros; what is computed from zeros is finite in the same channels.
    bool writes_padding(const recipe_work& work, const value_pair& pair) const {
        if (work.also != no_slot && !fills_memory(work.also)) return false;
        if (work.what == image_work::shuffle) return true;
        if (work.what == image_work::convolve) return work.groups == 1;
        if (work.what == image_work::convolve_transposed) return true;
        if (pair.first != no_slot) {
            return fills_memory(pair.first) &&
                   (pair.spread == kernels::image_spread::channels || fills_memory(pair.second));
        }
        return std::ranges::all_of(work.inputs, [&](slot each) { return fills_memory(each); });
    }

    // A convolution, and then the addition, of which one value is repeated.
    void write_own_sum(const recipe_work& work, const kernels::image_window& window) {
        recipe_work convolution = work, sum;
        convolution.also = no_slot;
        convolution.output = before_sum(work);
        convolution.curve = {};
        convolution.bounds = {};
        write_step(convolution, window);
        sum.what = image_work::add;
        sum.step = work.step;
        sum.inputs = {convolution.output, work.also};
        sum.output = work.output;
        sum.curve = work.curve;
        sum.bounds = work.bounds;
        write_step(sum, {});
    }
    void write_step(const recipe_work& work, const kernels::image_window& window) {
        if (is_own_sum(work)) return write_own_sum(work, window);
        const bool has_pair = work.what == image_work::add || work.what == image_work::multiply;
        const value_pair pair = has_pair ? pair_of(work) : value_pair{.first = work.inputs[0], .second = work.also};
        const slot also = pair.second;
        if (also != no_slot) use(also);
        image_step& made =
            begin(work.what, pair.first, work.output, writes_padding(work, has_pair ? pair : value_pair{}));
        if (also != no_slot) {
            made.also = placed(also);
            made.has_also = true;
        }
        made.also_spread = pair.spread;
        made.curve = work.curve;
        if (work.bounds) {
            made.has_bounds = true;
            made.least = work.bounds->least;
            made.most = work.bounds->most;
        }
        made.window = window;
        if (work.what == image_work::resample)
            made.resampling = resampling_of(in_, in_.steps[work.step], size(work.inputs[0]), size(work.output));
        made.groups = work.what == image_work::shuffle ? shapes_[work.split].shape()[1] : work.groups;
        made.numbers = work.numbers;
        const step& of = in_.steps[work.step];
        made.counts_padding = is(of, "AveragePool") && integer(of, "count_include_pad", 0) != 0;
    }

    // Inputs of a concatenation that are a part of another one, or of this one in another place.
    void copy_others(const recipe_work& work) {
        std::size_t channel = 0;
        for (const slot each : work.inputs) {
            const std::size_t here = channel;
            channel += size(each).channels;
            if (values_[each].parent == work.output && values_[each].channel == here) continue;
            image_step& made = begin(image_work::copy, each, work.output, false);
            made.in = made.out = size(each);
            made.to.row = here;  // until resolve() replaces it
        }
    }

    // --- steps that are carried out side by side ---

    // Channels of a root.
    struct channel_range {
        slot root;
        std::size_t first, last;

        bool meets(const channel_range& other) const {
            return root == other.root && first < other.last && other.first < last;
        }
    };
    channel_range range_of(const image_place& place, const image_size& size) const {
        const slot of = static_cast<slot>(place.first);
        const std::size_t first = of_root_[of] + place.row;
        return {values_[of].root, first, first + size.channels};
    }
    bool depends(const image_step& on, const image_step& step) const {
        const channel_range written = range_of(step.to, step.out), written_before = range_of(on.to, on.out);
        return written.meets(written_before) || written.meets(range_of(on.from, on.in)) ||
               written.meets(range_of(on.also, on.out)) || written_before.meets(range_of(step.from, step.in)) ||
               written_before.meets(range_of(step.also, step.out));
    }

    // Whether this step and the next one are carried out band by band.
    bool make_bands(std::size_t at) {
        if (are_together_ || at + 1 >= steps_.size()) return false;
        image_step& convolution = steps_[at];
        const image_step& pooling = steps_[at + 1];
        if (convolution.what != image_work::convolve) return false;
        if (pooling.what != image_work::maximum && pooling.what != image_work::average) return false;
        const slot between = static_cast<slot>(convolution.to.first);
        value& root = values_[between];
        if (static_cast<slot>(pooling.from.first) != between || root.root != between || root.has_parts) return false;
        if (root.first_use != at || root.last_use != at + 1) return false;
        const kernels::image_bands bands = kernels::bands_of(convolution, pooling, form_of(between).row());
        if (bands.count == 0) return false;
        convolution.has_bands = true;
        root.rows_of_bands = bands.count * bands.rows;
        return true;
    }

    void find_only_readers() {
        for (std::size_t i = 0; i + 1 < steps_.size(); ++i) {
            const slot to = static_cast<slot>(steps_[i].to.first);
            const value& of = values_[to];
            steps_[i].only_next_reads = of.root == to && !of.has_parts && of.first_use == i && of.last_use == i + 1;
        }
    }

    // Each step joins the ones before it if it can. What a phase uses is in use until its end.
    void find_phases() {
        std::vector<std::size_t> phases(steps_.size());
        std::size_t first = 0;
        for (std::size_t i = 0; i < steps_.size(); ++i) {
            if (make_bands(i)) {
                phases[i] = phases[i + 1] = i;
                first = ++i + 1;
                continue;
            }
            const auto begin = steps_.begin() + static_cast<std::ptrdiff_t>(first);
            const auto end = steps_.begin() + static_cast<std::ptrdiff_t>(i);
            if (are_together_ || std::any_of(begin, end, [&](const image_step& on) { return depends(on, steps_[i]); }))
                first = i;
            steps_[i].is_side_by_side = first != i;
            phases[i] = first;
        }
        for (value& each : values_) {
            if (!each.is_used) continue;
            each.first_use = phases[each.first_use];
            each.last_use = phases[each.last_use];
            if (are_together_) each.last_use += kernels::most_joined_steps - 1;
        }
    }

    // --- memory ---

    struct root_form {
        std::size_t pixel, width, height;  // floats from one pixel to the next

        std::size_t row() const { return width * pixel; }
    };
    // The pixels of a tile must not all fall into one set of the first cache.
    static constexpr std::size_t cache_period = 256, cache_line = 16;

    root_form form_of(slot root) const {
        const image_size of = size(root);
        if (are_together_) return {kernels::padded_channels(of.channels), of.width, of.height};
        const image_border& border = values_[root].border;
        return {
            of.channels % cache_period == 0 ? of.channels + cache_line : of.channels,
            of.width + border.left + border.right,
            values_[root].rows_of_bands != 0 ? values_[root].rows_of_bands : of.height + border.top + border.bottom};
    }

    // Borders of much more memory than the images are not. (As double: no product is too large for it.)
    bool is_worth_its_memory() const {
        constexpr double most_times = 8, always = 1 << 20;  // floats
        for (slot each = 0; each < values_.size(); ++each) {
            if (!values_[each].is_used) continue;
            const root_form form = form_of(each);
            const double floats =
                static_cast<double>(form.width) * static_cast<double>(form.height) * static_cast<double>(form.pixel);
            if (floats > most_times * static_cast<double>(size(each).elements()) + always) return false;
        }
        return true;
    }

    // The kernels count elements of a step in 32 bits.
    bool can_be_counted() const {
        constexpr double most = 2e9, most_lengths = 1e6;
        return std::ranges::all_of(steps_, [&](const image_step& each) {
            const auto& window = each.window;
            for (const size_2d& one : {window.size, window.stride, window.dilation, window.before, window.after})
                if (std::max<double>(static_cast<double>(one.height), static_cast<double>(one.width)) > most_lengths)
                    return false;
            const auto count = [&](const image_size& of) {
                return static_cast<double>(images_) * static_cast<double>(of.channels) *
                       static_cast<double>(of.height) * static_cast<double>(of.width);
            };
            return count(each.in) < most && count(each.out) < most;
        });
    }

    // Roots that are never in use at the same step may have the same place. Gives the elements of all.
    std::size_t place_roots() {
        std::vector<slot> roots;
        for (slot each = 0; each < values_.size(); ++each)
            if (values_[each].is_used) roots.push_back(each);
        std::ranges::sort(roots, {}, [&](slot each) { return values_[each].first_use; });
        std::vector<slot> placed;  // by place
        std::size_t end = 0;
        for (const slot each : roots) {
            value& of = values_[each];
            const root_form form = form_of(each);
            constexpr std::size_t unit = 64;
            const std::size_t images = are_together_ ? images_ : 1;
            of.floats = (images * form.height * form.width * form.pixel + unit - 1) / unit * unit;
            for (const slot other : placed) {
                const value& there = values_[other];
                if (there.last_use < of.first_use || there.place + there.floats <= of.place) continue;
                if (of.place + of.floats <= there.place) break;
                of.place = there.place + there.floats;
            }
            placed.insert(std::ranges::upper_bound(placed, of.place, {}, [&](slot one) { return values_[one].place; }),
                          each);
            end = std::max(end, of.place + of.floats);
        }
        return end + kernels::image_slack;
    }

    void resolve(image_place& place) const {
        const slot of = static_cast<slot>(place.first);
        const value& root = values_[values_[of].root];
        const root_form form = form_of(values_[of].root);
        const std::size_t channel = of_root_[of] + place.row;
        place.pixel = form.pixel;
        place.row = form.width * form.pixel;
        place.image = are_together_ ? form.height * place.row : 0;
        place.first = root.place + root.border.top * place.row + root.border.left * place.pixel + channel;
    }

    const prepared_graph& in_;
    const image_recipe& recipe_;
    const std::filesystem::path& path_;
    const bool are_together_;
    std::size_t images_ = 0, rank_ = 0;
    bool is_turned_ = false;  // height and width have changed their places
    std::vector<any_tensor> shapes_;
    std::vector<value> values_;
    std::vector<std::size_t> of_root_ = std::vector<std::size_t>(values_.size());  // the channel of the root
    std::vector<kernels::image_window> windows_;
    std::vector<image_step> steps_;
};

}  // namespace

std::optional<image_layout> layout_of(const prepared_graph& in, const image_recipe& recipe,
                                      const std::filesystem::path& path, std::span<const any_tensor> inputs,
                                      image_style style) {
    return layout_maker(in, recipe, path, inputs, style).make();
}

}  // namespace sluice::nn::detail

// SPDX-License-Identifier: Apache-2.0
#include "nn/images/recipe.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <span>
#include <utility>

#include "nn/images/resampling_of.hpp"
#include "nn/operators/table.hpp"
#include "nn/passes/steps.hpp"

namespace sluice::nn::detail {
namespace {

using kernels::image_work;

constexpr float infinity = std::numeric_limits<float>::infinity();

// --- what steps are ----------------------------------------------------------------------------------------------

// The dimensions of the images for which these are one number for each channel: 4 or 3; 0 where they are not. A list of
// numbers for all of them is for images with a height and a width.
std::size_t rank_of_channels(const any_tensor* numbers) {
    if (numbers == nullptr || numbers->elements() == 0) return 0;
    const auto& shape = numbers->shape();
    const auto is_for = [&](std::size_t rank) {
        if (shape.size() != rank && shape.size() + 1 != rank) return false;
        const std::size_t channels = shape.size() + 1 - rank;  // its dimension
        for (std::size_t i = 0; i < shape.size(); ++i)
            if (i != channels && shape[i] != 1) return false;
        return true;
    };
    return is_for(4) ? 4 : is_for(3) ? 3 : 0;
}

// The input of Add or Mul that is one number for each channel, or no_step.
std::size_t channel_input(const prepared_graph& in, const step& of) {
    if (of.inputs.size() != 2 || of.opset < 7) return no_step;
    for (std::size_t i = 0; i < 2; ++i)
        if (rank_of_channels(constant_input(in, of, i)) != 0) return i;
    return no_step;
}

// The input of Add or Mul that is one number for all elements of images, or no_step. With as many dimensions as these,
// it would give the result more than they have.
std::size_t number_input(const prepared_graph& in, const step& of) {
    if (of.inputs.size() != 2 || of.opset < 7) return no_step;
    for (std::size_t i = 0; i < 2; ++i) {
        const any_tensor* const number = constant_input(in, of, i);
        if (number != nullptr && number->elements() == 1 && number->shape().size() <= 3) return i;
    }
    return no_step;
}

bool is_convolution(const prepared_graph& in, const step& of) {
    const any_tensor* const filters = constant_input(in, of, 1);
    if (!is(of, "Conv") || filters == nullptr || filters->elements() == 0) return false;
    if (filters->shape().size() != 4 && filters->shape().size() != 3) return false;
    const std::int64_t groups = integer(of, "group", 1);
    if (groups < 1 || filters->shape()[0] % static_cast<std::size_t>(groups) != 0) return false;
    if (of.inputs.size() < 3 || of.inputs[2] == no_slot) return true;
    const any_tensor* const bias = constant_input(in, of, 2);
    return bias != nullptr && bias->shape() == operators::lengths{filters->shape()[0]};
}

std::optional<float> bound(const prepared_graph& in, const step& of, std::size_t input, std::string_view attribute,
                           float otherwise) {
    if (of.opset < 11) return real(of, attribute, otherwise);
    if (input >= of.inputs.size() || of.inputs[input] == no_slot) return otherwise;
    const any_tensor* const given = constant_input(in, of, input);
    return given != nullptr && given->elements() == 1 ? std::optional(given->values<float>()[0]) : std::nullopt;
}

std::optional<image_bounds> bounds_of(const prepared_graph& in, const step& of) {
    if (is(of, "Relu")) return image_bounds{0, infinity};
    const float all = of.opset < 11 ? std::numeric_limits<float>::max() : infinity;  // as the operator alone
    const auto least = bound(in, of, 1, "min", -all), most = bound(in, of, 2, "max", all);
    if (!least || !most || !(*least <= *most)) return {};  // not NaN either
    return image_bounds{*least, *most};
}

std::optional<kernels::image_curve> curve_of(const step& of) {
    using enum kernels::image_curve_kind;
    if (of.opset < 6) return {};  // LeakyRelu and HardSigmoid had other attributes
    if (is(of, "Sigmoid")) return kernels::image_curve{.kind = sigmoid};
    if (is(of, "Gelu") && text(of, "approximate", "none") == "none") return kernels::image_curve{.kind = gelu};
    if (is(of, "Tanh")) return kernels::image_curve{.kind = tanh};
    if (is(of, "LeakyRelu")) return kernels::image_curve{.kind = leaky, .slope = real(of, "alpha", 0.01f)};
    if (is(of, "Swish"))
        return kernels::image_curve{.kind = sigmoid, .times_input = true, .slope = real(of, "alpha", 1)};
    if (is(of, "HardSigmoid"))
        return kernels::image_curve{
            .kind = hard_sigmoid, .slope = real(of, "alpha", 0.2f), .offset = real(of, "beta", 0.5f)};
    if (is(of, "HardSwish"))
        return kernels::image_curve{.kind = hard_sigmoid, .times_input = true, .slope = 1.0f / 6, .offset = 0.5f};
    return {};
}

bool is_pooling(const prepared_graph& in, const step& of) {
    return is(of, "MaxPool") || is(of, "AveragePool") || is(of, "GlobalAveragePool") || is(of, "GlobalMaxPool") ||
           is_mean_of_image(in, of);
}

size_2d stride_of(const step& of) {
    const auto* const given = of.from->find<std::vector<std::int64_t>>("strides");
    if (given == nullptr || given->empty()) return {1, 1};
    const auto number = [](std::int64_t each) { return static_cast<std::size_t>(std::max<std::int64_t>(each, 1)); };
    return {given->size() > 1 ? number((*given)[0]) : 1, number(given->back())};
}

// In one group and without dilation, with padding that the node says.
bool is_transposed_convolution(const prepared_graph& in, const step& of) {
    const any_tensor* const filters = constant_input(in, of, 1);
    if (!is(of, "ConvTranspose") || filters == nullptr || filters->elements() == 0) return false;
    if (filters->shape().size() != 4 && filters->shape().size() != 3) return false;
    const auto* const dilations = of.from->find<std::vector<std::int64_t>>("dilations");
    if (dilations != nullptr && std::ranges::any_of(*dilations, [](std::int64_t each) { return each != 1; }))
        return false;
    const bool is_padded = of.from->find<std::vector<std::int64_t>>("output_shape") == nullptr &&
                           text(of, "auto_pad", "NOTSET") == "NOTSET";
    if (integer(of, "group", 1) != 1 || !is_padded) return false;
    // The filters are packed for each phase, also for those that no pixel reaches.
    constexpr std::size_t most_stride = 16;
    const size_2d stride = stride_of(of);
    if (stride.height > most_stride || stride.width > most_stride) return false;
    if (of.inputs.size() < 3 || of.inputs[2] == no_slot) return true;
    const any_tensor* const bias = constant_input(in, of, 2);
    return bias != nullptr && bias->shape() == operators::lengths{filters->shape()[1]};
}

// A list of integers, in an attribute or a constant of the host; none where it is neither.
std::optional<std::vector<std::int64_t>> integers_of(const prepared_graph& in, const step& of, std::size_t input,
                                                     std::string_view attribute) {
    if (const auto* const given = of.from->find<std::vector<std::int64_t>>(attribute)) return *given;
    if (input >= of.inputs.size() || of.inputs[input] == no_slot) return {};
    const auto found = in.constants.find(of.inputs[input]);
    if (found == in.constants.end() || !found->second.is_on_host()) return {};
    const any_tensor& list = found->second;
    if (list.type() == io::dtype::i64)
        return std::vector<std::int64_t>(list.values<std::int64_t>().begin(), list.values<std::int64_t>().end());
    if (list.type() == io::dtype::i32)
        return std::vector<std::int64_t>(list.values<std::int32_t>().begin(), list.values<std::int32_t>().end());
    return {};
}

// Split of the channels; or Slice of them, from a channel that is known and without leaving any out in between.
std::optional<std::int64_t> first_channel_of(const prepared_graph& in, const step& of) {
    if (is(of, "Split")) {
        const bool are_known = std::all_of(of.inputs.begin() + 1, of.inputs.end(),
                                           [&](slot each) { return each == no_slot || in.constants.contains(each); });
        return integer(of, "axis", 0) == 1 && are_known ? std::optional<std::int64_t>(0) : std::nullopt;
    }
    if (!is(of, "Slice")) return {};
    const auto starts = integers_of(in, of, 1, "starts"), ends = integers_of(in, of, 2, "ends"),
               axes = integers_of(in, of, 3, "axes"), steps = integers_of(in, of, 4, "steps");
    const bool has_steps = of.inputs.size() > 4 && of.inputs[4] != no_slot;
    if (!starts || !ends || !axes || axes->size() != 1 || starts->size() != 1 || (*axes)[0] != 1) return {};
    if ((*starts)[0] < 0 || (has_steps && (!steps || steps->size() != 1 || (*steps)[0] != 1))) return {};
    return (*starts)[0];
}

bool is_division(const prepared_graph& in, const step& of) {
    return first_channel_of(in, of) && !of.gives_shape_only && !of.is_on_host && of.inner.empty() &&
           of.layers == nullptr && of.inputs[0] != no_slot && !in.constants.contains(of.inputs[0]) &&
           std::ranges::none_of(of.outputs, [&](slot each) { return each == no_slot || in.needed_on_host[each]; });
}

bool is_same(const step& of) {
    return is(of, "Identity") || (is(of, "Dropout") && of.inputs.size() < 3 && of.opset >= 7);
}

}  // namespace

image_role role_of(const prepared_graph& in, const std::vector<std::size_t>& readers, std::size_t at,
                   image_style style) {
    const step& of = in.steps[at];
    if (style == image_style::one_by_one && is_division(in, of)) return image_role::division;
    const auto is_unread = [&](slot one) { return one == no_slot || readers[one] == no_step; };
    const bool has_one_output = !of.outputs.empty() && of.outputs[0] != no_slot &&
                                std::all_of(of.outputs.begin() + 1, of.outputs.end(), is_unread);
    if (!has_one_output || of.gives_shape_only || of.is_on_host || of.what->is_random || of.what->own != nullptr ||
        !of.inner.empty() || of.layers != nullptr || of.inputs.empty() || of.inputs[0] == no_slot ||
        in.needed_on_host[of.outputs[0]])
        return image_role::none;
    // Images that are constants stay what they are.
    const bool takes_constant =
        std::ranges::any_of(is(of, "Concat") ? std::span(of.inputs) : std::span(of.inputs).first(1),
                            [&](slot one) { return one == no_slot || in.constants.contains(one); });
    if (takes_constant && !is(of, "Add") && !is(of, "Mul")) return image_role::none;
    if (of.what == &operators::folded_batch_normalization()) return image_role::scale;
    if (is_convolution(in, of)) return image_role::convolution;
    if (style == image_style::together) {
        if (is_transposed_convolution(in, of)) return image_role::transposed_convolution;
        if (can_be_resampled(in, of)) return image_role::resampling;
    }
    if (is(of, "Add") || is(of, "Mul") || is(of, "Sum")) {
        if (of.inputs.size() != 2 || of.opset < (is(of, "Sum") ? 8 : 7)) return image_role::none;
        if (!is(of, "Sum") && style == image_style::one_by_one && number_input(in, of) != no_step)
            return image_role::scale;
        if (!is(of, "Sum") && channel_input(in, of) != no_step) return image_role::scale;
        const bool has_constant = in.constants.contains(of.inputs[0]) || in.constants.contains(of.inputs[1]);
        if (has_constant) return image_role::none;
        return is(of, "Mul") ? image_role::multiplication : image_role::addition;
    }
    if (is(of, "Relu") || (is(of, "Clip") && of.opset >= 6))
        return bounds_of(in, of) ? image_role::bounds : image_role::none;
    if (curve_of(of)) return image_role::curve;
    if (is_pooling(in, of)) return image_role::pooling;
    if (is(of, "Concat")) return integer(of, "axis", 0) == 1 ? image_role::concatenation : image_role::none;
    if (is_same(of)) return image_role::same;
    return is(of, "Reshape") || is(of, "Transpose") ? image_role::reshape : image_role::none;
}

std::vector<std::size_t> shuffle_from(const prepared_graph& in, const std::vector<std::size_t>& readers,
                                      std::size_t at) {
    std::vector<std::size_t> found{at};
    const auto is_shape_known = [&](const step& of) {
        return is(of, "Reshape") && of.inputs.size() == 2 && in.constants.contains(of.inputs[1]);
    };
    if (!is_shape_known(in.steps[at])) return {};
    for (std::size_t i = 0; i < 2; ++i) {
        const std::size_t next = readers[in.steps[found.back()].outputs[0]];
        if (next >= several_steps || role_of(in, readers, next, image_style::one_by_one) != image_role::reshape)
            return {};
        found.push_back(next);
    }
    const auto* const order = in.steps[found[1]].from->find<std::vector<std::int64_t>>("perm");
    const bool exchanges =
        is(in.steps[found[1]], "Transpose") && order != nullptr && *order == std::vector<std::int64_t>{0, 2, 1, 3, 4};
    if (!exchanges || !is_shape_known(in.steps[found[2]])) return {};
    return found;
}

namespace {

// --- the recipe --------------------------------------------------------------------------------------------------

// What a work is made of until all that joins it is known.
struct draft {
    recipe_work work;
    std::vector<float> filters;        // [filters, channels, height, width]
    std::vector<double> factors = {};  // of each channel: of the filters, or of scale
    std::vector<double> addends = {};
    bool is_dropped = false;  // another draft computes it too
};

class recipe_maker {
public:
    recipe_maker(const prepared_graph& in, number_packer& numbers, image_style style)
        : in_(in),
          numbers_(numbers),
          style_(style),
          readers_(only_readers(in)),
          same_(in.slots),
          givers_(in.slots, no_step) {
        for (slot i = 0; i < in.slots; ++i) same_[i] = i;
        std::vector<slot> read = in.outputs;
        for (const step& each : in.steps) std::ranges::copy(each.inputs, std::back_inserter(read));
        for (const slot each : read)
            if (each != no_slot) ++uses_[each];
    }

    image_recipe make() {
        for (std::size_t i = 0; i < in_.steps.size(); ++i) add(i);
        image_recipe made;
        for (draft& each : drafts_) {
            if (each.is_dropped) continue;
            pack(each);
            made.works.push_back(std::move(each.work));
        }
        for (const slot each : in_.outputs) made.outputs.push_back(same_[each]);
        return made;
    }

private:
    slot input(const step& of, std::size_t i) const { return same_[of.inputs[i]]; }

    draft& begin(std::size_t at, image_work what, slot output) {
        givers_[output] = drafts_.size();
        draft made{};
        made.work.what = what;
        made.work.output = output;
        made.work.step = at;
        return drafts_.emplace_back(std::move(made));
    }

    // The work that gives the value, if only the step reads it. Null for an outside value.
    draft* only_giver(slot value, std::size_t reader) {
        return readers_[value] == reader && givers_[value] != no_step ? &drafts_[givers_[value]] : nullptr;
    }
    void continues(draft& with, slot output) {
        givers_[output] = static_cast<std::size_t>(&with - drafts_.data());
        with.work.output = output;
    }

    void add(std::size_t at) {
        const step& of = in_.steps[at];
        const slot output = of.outputs[0];
        switch (role_of(in_, readers_, at, style_)) {
            case image_role::convolution: return add_convolution(at);
            case image_role::transposed_convolution: return add_transposed_convolution(at);
            case image_role::resampling: {
                begin(at, image_work::resample, output).work.inputs = {input(of, 0)};
                return;
            }
            case image_role::scale: return add_scale(at);
            case image_role::bounds: return add_bounds(at);
            case image_role::curve: return add_curve(at, input(of, 0), *curve_of(of), at);
            case image_role::addition: return add_addition(at);
            case image_role::multiplication: return add_multiplication(at);
            case image_role::same: return join_same(at);
            case image_role::pooling: {
                const bool is_maximum = is(of, "MaxPool") || is(of, "GlobalMaxPool");
                begin(at, is_maximum ? image_work::maximum : image_work::average, output).work.inputs = {input(of, 0)};
                return;
            }
            case image_role::concatenation: {
                draft& made = begin(at, image_work::copy, output);
                made.work.is_concatenation = true;
                for (std::size_t i = 0; i < of.inputs.size(); ++i) made.work.inputs.push_back(input(of, i));
                return;
            }
            case image_role::division: {
                std::vector<slot> before;
                for (const slot each : of.outputs) {
                    recipe_work& made = begin(at, image_work::copy, each).work;
                    made.is_part = true;
                    made.first_channel = static_cast<std::size_t>(*first_channel_of(in_, of));
                    made.parts_before = before;
                    made.inputs = {input(of, 0)};
                    before.push_back(each);
                }
                return;
            }
            case image_role::reshape: {
                if (shuffle_from(in_, readers_, at).empty()) return;  // the second or third step of one
                const step& last = in_.steps[shuffle_from(in_, readers_, at).back()];
                if (join_shuffle(at, last.outputs[0])) return;
                draft& made = begin(at, image_work::shuffle, last.outputs[0]);
                made.work.inputs = {input(of, 0)};
                made.work.split = output;
                return;
            }
            case image_role::none: return;
        }
    }

    // The value is the other one from now on. Its readers are then those of both.
    void join_same(std::size_t at) {
        const slot value = input(in_.steps[at], 0), same = in_.steps[at].outputs[0];
        same_[same] = value;
        readers_[value] = readers_[value] == at ? readers_[same] : several_steps;
        uses_[value] += uses_[same] - 1;
    }

    // The filters before it are written in the order that the shuffle gives their channels. Whether that is possible.
    bool join_shuffle(std::size_t at, slot output) {
        const step& of = in_.steps[at];
        draft* const before = only_giver(input(of, 0), at);
        if (before == nullptr || before->work.what != image_work::convolve || before->work.also != no_slot ||
            before->work.shuffled_groups != 0)
            return false;
        const any_tensor& split = in_.constants.at(of.inputs[1]);
        if (!split.is_on_host() || split.type() != io::dtype::i64 || split.elements() != 5) return false;
        const std::int64_t groups = split.values<std::int64_t>()[1];
        const std::size_t filters = before->factors.size();
        const std::size_t channels = constant_input(in_, in_.steps[before->work.step], 1)->shape()[1];
        if (groups < 1 || filters % static_cast<std::size_t>(groups) != 0 ||
            !numbers_.can_shuffle(before->work.groups, filters, channels))
            return false;
        before->work.split = of.outputs[0];
        before->work.shuffled_groups = static_cast<std::size_t>(groups);
        continues(*before, output);
        return true;
    }

    void add_convolution(std::size_t at) {
        const step& of = in_.steps[at];
        const any_tensor& filters = *constant_input(in_, of, 1);
        const std::size_t count = filters.shape()[0], groups = static_cast<std::size_t>(integer(of, "group", 1));
        const bool is_by_channels = groups == count && filters.shape()[1] == 1;
        draft& made = begin(at, is_by_channels ? image_work::convolve_channels : image_work::convolve, of.outputs[0]);
        made.work.inputs = {input(of, 0)};
        made.work.groups = groups;
        made.filters.assign(filters.values<float>().begin(), filters.values<float>().end());
        made.factors.assign(count, 1.0);
        made.addends.assign(count, 0.0);
        if (const any_tensor* const bias = constant_input(in_, of, 2))
            made.addends.assign(bias->values<float>().begin(), bias->values<float>().end());
    }

    void add_transposed_convolution(std::size_t at) {
        const step& of = in_.steps[at];
        const any_tensor& filters = *constant_input(in_, of, 1);
        draft& made = begin(at, image_work::convolve_transposed, of.outputs[0]);
        made.work.inputs = {input(of, 0)};
        made.filters.assign(filters.values<float>().begin(), filters.values<float>().end());
        made.factors.assign(filters.shape()[1], 1.0);
        made.addends.assign(filters.shape()[1], 0.0);
        if (const any_tensor* const bias = constant_input(in_, of, 2))
            made.addends.assign(bias->values<float>().begin(), bias->values<float>().end());
    }

    struct channel_numbers {
        std::size_t input;
        std::vector<double> factors, addends;
        std::size_t rank = 0;  // of the images
    };
    channel_numbers numbers_of(const step& of) const {
        const auto list = [&](std::size_t i) {
            const std::span<const float> given = constant_input(in_, of, i)->values<float>();
            return std::vector<double>(given.begin(), given.end());
        };
        if (of.what == &operators::folded_batch_normalization()) return {0, list(1), list(3)};
        std::size_t constant = channel_input(in_, of);
        if (constant == no_step) constant = number_input(in_, of);
        std::vector<double> given = list(constant);
        const std::size_t count = given.size();
        // (One number for one channel is that whatever the rank is.)
        const std::size_t rank = count == 1 ? 0 : rank_of_channels(constant_input(in_, of, constant));
        if (is(of, "Mul")) return {1 - constant, std::move(given), std::vector<double>(count, 0.0), rank};
        return {1 - constant, std::vector<double>(count, 1.0), std::move(given), rank};
    }
    // Whether the draft, which has factors, gives images of this rank.
    bool fits_rank(const draft& of, std::size_t rank) const {
        if (rank == 0) return true;
        if (of.work.what == image_work::scale) return of.work.rank == rank;
        return constant_input(in_, in_.steps[of.work.step], 1)->shape().size() == rank;
    }

    static bool are_finite(const std::vector<double>& numbers) {
        return std::ranges::all_of(numbers, [](double each) {
            return std::abs(each) < static_cast<double>(std::numeric_limits<float>::max());
        });
    }

    // Large numbers that are added and taken away again round what is between.
    static bool can_add(double first, double second) {
        constexpr double rounds = 1 << 20;
        return first == 0 || second == 0 || std::max(std::abs(first), std::abs(second)) < rounds;
    }
    // The channel of the output that the filters' number i is for.
    std::size_t channel_of(const draft& of, std::size_t i) const {
        const auto& shape = constant_input(in_, in_.steps[of.work.step], 1)->shape();
        const std::size_t taps = of.filters.size() / shape[0] / shape[1];
        const bool is_transposed = of.work.what == image_work::convolve_transposed;
        return is_transposed ? i / taps % shape[1] : i / (taps * shape[1]);
    }
    // Whether each filter times its factor is finite, and no less exact than it was.
    bool can_scale(const draft& of, const std::vector<double>& factors) const {
        constexpr double least = 1e-30, most = std::numeric_limits<float>::max();
        const auto fits = [](double filter, double factor) {
            const double made = std::abs(filter * factor);
            return filter == 0 || factor == 0 || (made < most && (made >= least || made >= std::abs(filter)));
        };
        if (of.filters.empty()) return std::ranges::all_of(factors, [&](double each) { return fits(1, each); });
        for (std::size_t i = 0; i < of.filters.size(); ++i)
            if (!fits(double{of.filters[i]}, factors[channel_of(of, i)])) return false;
        return true;
    }

    void add_scale(std::size_t at) {
        const step& of = in_.steps[at];
        channel_numbers numbers = numbers_of(of);
        const slot from = input(of, numbers.input);
        draft* const before = only_giver(from, at);
        const bool is_for_all = style_ == image_style::one_by_one && numbers.factors.size() == 1 && is_one_number(of);
        if (is_for_all && before != nullptr && !before->factors.empty()) {
            numbers.factors.resize(before->factors.size(), numbers.factors[0]);
            numbers.addends.resize(before->factors.size(), numbers.addends[0]);
        }
        if (before != nullptr && !before->factors.empty() && !before->work.bounds && !before->work.curve &&
            before->work.also == no_slot && before->work.shuffled_groups == 0 &&
            before->factors.size() == numbers.factors.size() && fits_rank(*before, numbers.rank)) {
            std::vector<double> factors = before->factors, addends = before->addends;
            bool can_join = true;
            for (std::size_t c = 0; c < factors.size(); ++c) {
                const double moved = addends[c] * numbers.factors[c];
                can_join = can_join && can_add(moved, numbers.addends[c]);
                factors[c] *= numbers.factors[c];
                addends[c] = moved + numbers.addends[c];
            }
            if (can_join && are_finite(factors) && are_finite(addends) && can_scale(*before, factors)) {
                before->factors = std::move(factors);
                before->addends = std::move(addends);
                return continues(*before, of.outputs[0]);
            }
        }
        if (is_for_all)
            return add_line(at, from, static_cast<float>(numbers.factors[0]), static_cast<float>(numbers.addends[0]));
        draft& made = begin(at, image_work::scale, of.outputs[0]);
        made.work.inputs = {from};
        made.work.channels = numbers.factors.size();
        made.work.rank = numbers.rank;
        made.factors = std::move(numbers.factors);
        made.addends = std::move(numbers.addends);
    }

    bool is_one_number(const step& of) const {
        return (is(of, "Add") || is(of, "Mul")) && number_input(in_, of) != no_step;
    }
    // One number for all channels, where it cannot be a part of filters: after the curve before it, if there is one.
    void add_line(std::size_t at, slot from, float factor, float addend) {
        draft* const before = only_giver(from, at);
        if (takes_bounds(before) && before->work.curve && !before->work.bounds) {
            kernels::image_curve& curve = before->work.curve;
            const float scaled = curve.factor * factor, moved = curve.addend * factor, sum = moved + addend;
            const auto is_exact = [&](float made, float of) { return std::isnormal(made) || of == 0 || factor == 0; };
            if (is_exact(scaled, curve.factor) && is_exact(moved, curve.addend) && std::isfinite(sum) &&
                can_add(static_cast<double>(moved), static_cast<double>(addend))) {
                curve.is_scaled = true;
                curve.factor = scaled;
                curve.addend = sum;
                return continues(*before, in_.steps[at].outputs[0]);
            }
        }
        add_curve(at, from,
                  {.kind = kernels::image_curve_kind::same, .is_scaled = true, .factor = factor, .addend = addend}, at);
    }

    static bool takes_bounds(const draft* of) {
        return of != nullptr && !of->work.is_concatenation && !of->work.is_part && of->work.what != image_work::shuffle;
    }
    static bool takes_curve(const draft* of) { return takes_bounds(of) && !of->work.bounds && !of->work.curve; }
    static void narrow(draft& of, const image_bounds& next) {
        auto& bounds = of.work.bounds;
        bounds = bounds ? image_bounds{std::clamp(bounds->least, next.least, next.most),
                                       std::clamp(bounds->most, next.least, next.most)}
                        : next;
    }

    // The drafts of which what follows `value` becomes a part: its giver, or those of the parts of a concatenation.
    // Nothing else reads them, and `takes` is true of each. Empty where there are none.
    template <typename Takes>
    std::vector<draft*> drafts_before(slot value, std::size_t reader, const Takes& takes) {
        draft* const before = only_giver(value, reader);
        if (takes(before)) return {before};
        if (before == nullptr || !before->work.is_concatenation) return {};
        std::vector<draft*> parts;
        parts.reserve(before->work.inputs.size());
        for (const slot each : before->work.inputs) parts.push_back(only_giver(each, before->work.step));
        return std::ranges::all_of(parts, takes) ? parts : std::vector<draft*>();
    }
    draft& begin_copy(std::size_t at, slot from) {
        draft& made = begin(at, image_work::copy, in_.steps[at].outputs[0]);
        made.work.inputs = {from};
        return made;
    }

    void add_bounds(std::size_t at) {
        const image_bounds next = *bounds_of(in_, in_.steps[at]);
        const slot from = input(in_.steps[at], 0);
        const std::vector<draft*> before = drafts_before(from, at, &takes_bounds);
        if (before.empty()) {
            begin_copy(at, from).work.bounds = next;
            return;
        }
        for (draft* const each : before) narrow(*each, next);
        continues(*only_giver(from, at), in_.steps[at].outputs[0]);
    }

    // `reader`: the only step that reads `from`, perhaps together with the step of the curve.
    void add_curve(std::size_t at, slot from, const kernels::image_curve& curve, std::size_t reader) {
        const std::vector<draft*> before = drafts_before(from, reader, &takes_curve);
        if (before.empty()) {
            begin_copy(at, from).work.curve = curve;
            return;
        }
        for (draft* const each : before) each->work.curve = curve;
        continues(*only_giver(from, reader), in_.steps[at].outputs[0]);
    }

    // x times a curve of x is another curve.
    bool join_curve(std::size_t at, slot x, slot curved) {
        draft* const giver = only_giver(curved, at);
        if (giver == nullptr || giver->work.what != image_work::copy || giver->work.is_concatenation) return false;
        if (giver->work.is_part) return false;
        const recipe_work& work = giver->work;
        if (!work.curve || work.curve.times_input || work.curve.is_scaled || work.bounds || work.inputs[0] != x)
            return false;
        kernels::image_curve curve = work.curve;
        curve.times_input = true;
        if (uses_[x] == 2) readers_[x] = at;  // the other one was the curve
        giver->is_dropped = true;
        add_curve(at, x, curve, at);
        return true;
    }

    void add_multiplication(std::size_t at) {
        const step& of = in_.steps[at];
        const slot a = input(of, 0), b = input(of, 1);
        if (join_curve(at, a, b) || join_curve(at, b, a)) return;
        begin(at, image_work::multiply, of.outputs[0]).work.inputs = {a, b};
    }

    void add_addition(std::size_t at) {
        const step& of = in_.steps[at];
        const slot a = input(of, 0), b = input(of, 1);
        draft *first = a == b ? nullptr : only_giver(a, at), *second = a == b ? nullptr : only_giver(b, at);
        const auto may_add = [](const draft* to) {
            return to != nullptr && !to->work.bounds && !to->work.curve && to->work.also == no_slot &&
                   (to->work.what == image_work::convolve || to->work.what == image_work::convolve_channels ||
                    to->work.what == image_work::convolve_transposed);
        };
        const auto is_before = [&](slot value, const draft& than) {
            return givers_[value] == no_step || givers_[value] < static_cast<std::size_t>(&than - drafts_.data());
        };
        for (const auto& [into, other] : {std::pair{first, b}, std::pair{second, a}}) {
            if (!may_add(into) || !is_before(other, *into)) continue;
            into->work.also = other;
            return continues(*into, of.outputs[0]);
        }
        draft& made = begin(at, image_work::add, of.outputs[0]);
        made.work.inputs = {a, b};
    }

    void pack(draft& each) const {
        recipe_work& work = each.work;
        const std::vector<float> addends(each.addends.begin(), each.addends.end());
        if (work.what == image_work::scale) {
            work.numbers = numbers_.add_factors({each.factors.begin(), each.factors.end()}, addends);
        } else if (!each.filters.empty()) {
            const auto& shape = constant_input(in_, in_.steps[work.step], 1)->shape();
            const bool is_transposed = work.what == image_work::convolve_transposed;
            for (std::size_t i = 0; i < each.filters.size(); ++i)
                each.filters[i] = static_cast<float>(each.filters[i] * each.factors[channel_of(each, i)]);
            const size_2d window{shape.size() == 3 ? 1 : shape[2], shape.back()};
            work.numbers =
                is_transposed
                    ? numbers_.add_transposed_filters(each.filters, addends, window, stride_of(in_.steps[work.step]))
                : work.what == image_work::convolve_channels
                    ? numbers_.add_channel_filters(each.filters, addends, window)
                    : numbers_.add_filters(each.filters, addends, work.groups, shape[1], window, work.shuffled_groups);
            each.filters = {};
        }
    }

    const prepared_graph& in_;
    number_packer& numbers_;
    const image_style style_;
    std::vector<std::size_t> readers_;
    std::vector<slot> same_;            // the value that is meant
    std::vector<std::size_t> givers_;   // the draft that gives the value
    std::map<slot, std::size_t> uses_;  // how often the value is read
    std::vector<draft> drafts_;
};

}  // namespace

bool is_mean_of_image(const prepared_graph& in, const step& of) {
    if (!is(of, "ReduceMean") || integer(of, "keepdims", 1) != 1) return false;
    std::vector<std::int64_t> axes;
    if (const auto* const given = of.from->find<std::vector<std::int64_t>>("axes")) axes = *given;
    if (of.inputs.size() > 1 && of.inputs[1] != no_slot) {
        const auto found = in.constants.find(of.inputs[1]);
        if (found == in.constants.end() || !found->second.is_on_host() || found->second.type() != io::dtype::i64)
            return false;
        const std::span<const std::int64_t> given = found->second.values<std::int64_t>();
        axes.assign(given.begin(), given.end());
    }
    std::ranges::sort(axes);
    // (Of images of another rank these are other axes; then the shapes do not fit the layout.)
    using list = std::vector<std::int64_t>;
    return axes == list{2, 3} || axes == list{-2, -1};
}

image_recipe recipe_of(const prepared_graph& in, number_packer& numbers, image_style style) {
    return recipe_maker(in, numbers, style).make();
}

}  // namespace sluice::nn::detail

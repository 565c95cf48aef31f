// SPDX-License-Identifier: Apache-2.0
#include "nn/images/recipe.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "nn/operators/table.hpp"
#include "nn/passes/steps.hpp"

namespace sluice::nn::detail {
namespace {

using kernels::image_work;

constexpr float infinity = std::numeric_limits<float>::infinity();

// --- what steps are ----------------------------------------------------------------------------------------------

// One number for each channel of images with two dimensions.
bool is_by_channel(const any_tensor* numbers) {
    if (numbers == nullptr || numbers->elements() == 0) return false;
    const auto& shape = numbers->shape();
    const bool has_images = shape.size() == 4 && shape[0] == 1;
    return (has_images || shape.size() == 3) && shape[shape.size() - 1] == 1 && shape[shape.size() - 2] == 1;
}

// The input of Add or Mul that is one number for each channel, or no_step.
std::size_t channel_input(const prepared_graph& in, const step& of) {
    if (of.inputs.size() != 2 || of.opset < 7) return no_step;
    for (std::size_t i = 0; i < 2; ++i)
        if (is_by_channel(constant_input(in, of, i))) return i;
    return no_step;
}

bool is_convolution(const prepared_graph& in, const step& of) {
    const any_tensor* const filters = constant_input(in, of, 1);
    if (!is(of, "Conv") || filters == nullptr || filters->shape().size() != 4 || filters->elements() == 0) return false;
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
    const auto least = bound(in, of, 1, "min", -infinity), most = bound(in, of, 2, "max", infinity);
    if (!least || !most || !(*least <= *most)) return {};  // not NaN either
    return image_bounds{*least, *most};
}

bool is_pooling(const step& of) {
    return is(of, "MaxPool") || is(of, "AveragePool") || is(of, "GlobalAveragePool") || is(of, "GlobalMaxPool");
}

bool is_same(const step& of) {
    return is(of, "Identity") || (is(of, "Dropout") && of.inputs.size() < 3 && of.opset >= 7);
}

}  // namespace

image_role role_of(const prepared_graph& in, const std::vector<std::size_t>& readers, std::size_t at) {
    const step& of = in.steps[at];
    const auto is_unread = [&](slot one) { return one == no_slot || readers[one] == no_step; };
    const bool has_one_output = !of.outputs.empty() && of.outputs[0] != no_slot &&
                                std::all_of(of.outputs.begin() + 1, of.outputs.end(), is_unread);
    if (!has_one_output || of.is_on_host || of.what->is_random || of.what->own != nullptr || !of.inner.empty() ||
        of.layers != nullptr || of.inputs.empty() || of.inputs[0] == no_slot || in.needed_on_host[of.outputs[0]])
        return image_role::none;
    // Images that are constants stay what they are.
    const bool takes_constant =
        std::ranges::any_of(is(of, "Concat") ? std::span(of.inputs) : std::span(of.inputs).first(1),
                            [&](slot one) { return one == no_slot || in.constants.contains(one); });
    if (takes_constant && !is(of, "Add") && !is(of, "Mul")) return image_role::none;
    if (of.what == &operators::folded_batch_normalization()) return image_role::scale;
    if (is_convolution(in, of)) return image_role::convolution;
    if (is(of, "Add") || is(of, "Mul") || is(of, "Sum")) {
        if (of.inputs.size() != 2 || of.opset < (is(of, "Sum") ? 8 : 7)) return image_role::none;
        if (!is(of, "Sum") && channel_input(in, of) != no_step) return image_role::scale;
        const bool has_constant = in.constants.contains(of.inputs[0]) || in.constants.contains(of.inputs[1]);
        return is(of, "Mul") || has_constant ? image_role::none : image_role::addition;
    }
    if (is(of, "Relu") || (is(of, "Clip") && of.opset >= 6))
        return bounds_of(in, of) ? image_role::bounds : image_role::none;
    if (is_pooling(of)) return image_role::pooling;
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
        if (next >= several_steps || role_of(in, readers, next) != image_role::reshape) return {};
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
};

class recipe_maker {
public:
    recipe_maker(const prepared_graph& in, number_packer& numbers)
        : in_(in), numbers_(numbers), readers_(only_readers(in)), same_(in.slots), givers_(in.slots, no_step) {
        for (slot i = 0; i < in.slots; ++i) same_[i] = i;
    }

    image_recipe make() {
        for (std::size_t i = 0; i < in_.steps.size(); ++i) add(i);
        image_recipe made;
        for (draft& each : drafts_) {
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
        switch (role_of(in_, readers_, at)) {
            case image_role::convolution: return add_convolution(at);
            case image_role::scale: return add_scale(at);
            case image_role::bounds: return add_bounds(at);
            case image_role::addition: return add_addition(at);
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

    struct channel_numbers {
        std::size_t input;
        std::vector<double> factors, addends;
    };
    channel_numbers numbers_of(const step& of) const {
        const auto list = [&](std::size_t i) {
            const std::span<const float> given = constant_input(in_, of, i)->values<float>();
            return std::vector<double>(given.begin(), given.end());
        };
        if (of.what == &operators::folded_batch_normalization()) return {0, list(1), list(3)};
        const std::size_t constant = channel_input(in_, of);
        std::vector<double> given = list(constant);
        const std::size_t count = given.size();
        if (is(of, "Mul")) return {1 - constant, std::move(given), std::vector<double>(count, 0.0)};
        return {1 - constant, std::vector<double>(count, 1.0), std::move(given)};
    }

    static bool are_finite(const std::vector<double>& numbers) {
        return std::ranges::all_of(numbers, [](double each) {
            return std::abs(each) < static_cast<double>(std::numeric_limits<float>::max());
        });
    }

    void add_scale(std::size_t at) {
        const step& of = in_.steps[at];
        channel_numbers numbers = numbers_of(of);
        const slot from = input(of, numbers.input);
        draft* const before = only_giver(from, at);
        if (before != nullptr && !before->factors.empty() && !before->work.bounds && before->work.also == no_slot &&
            before->work.shuffled_groups == 0 && before->factors.size() == numbers.factors.size()) {
            std::vector<double> factors = before->factors, addends = before->addends;
            for (std::size_t c = 0; c < factors.size(); ++c) {
                factors[c] *= numbers.factors[c];
                addends[c] = addends[c] * numbers.factors[c] + numbers.addends[c];
            }
            if (are_finite(factors) && are_finite(addends)) {
                before->factors = std::move(factors);
                before->addends = std::move(addends);
                return continues(*before, of.outputs[0]);
            }
        }
        draft& made = begin(at, image_work::scale, of.outputs[0]);
        made.work.inputs = {from};
        made.work.channels = numbers.factors.size();
        made.factors = std::move(numbers.factors);
        made.addends = std::move(numbers.addends);
    }

    static bool takes_bounds(const draft* of) {
        return of != nullptr && !of->work.is_concatenation && of->work.what != image_work::shuffle;
    }
    static void narrow(draft& of, const image_bounds& next) {
        auto& bounds = of.work.bounds;
        bounds = bounds ? image_bounds{std::clamp(bounds->least, next.least, next.most),
                                       std::clamp(bounds->most, next.least, next.most)}
                        : next;
    }

    void add_bounds(std::size_t at) {
        const step& of = in_.steps[at];
        const image_bounds next = *bounds_of(in_, of);
        const slot from = input(of, 0);
        draft* const before = only_giver(from, at);
        if (takes_bounds(before)) {
            narrow(*before, next);
            return continues(*before, of.outputs[0]);
        }
        // Those of a concatenation are those of its parts, where nothing else reads them.
        if (before != nullptr && before->work.is_concatenation) {
            std::vector<draft*> parts;
            parts.reserve(before->work.inputs.size());
            for (const slot each : before->work.inputs) parts.push_back(only_giver(each, before->work.step));
            if (std::ranges::all_of(parts, takes_bounds)) {
                for (draft* const each : parts) narrow(*each, next);
                return continues(*before, of.outputs[0]);
            }
        }
        draft& made = begin(at, image_work::copy, of.outputs[0]);
        made.work.inputs = {from};
        made.work.bounds = next;
    }

    void add_addition(std::size_t at) {
        const step& of = in_.steps[at];
        const slot a = input(of, 0), b = input(of, 1);
        draft *first = a == b ? nullptr : only_giver(a, at), *second = a == b ? nullptr : only_giver(b, at);
        const auto may_add = [](const draft* to) {
            return to != nullptr && !to->work.bounds && to->work.also == no_slot &&
                   (to->work.what == image_work::convolve || to->work.what == image_work::convolve_channels);
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
            const std::size_t of_filter = each.filters.size() / shape[0];
            for (std::size_t i = 0; i < each.filters.size(); ++i)
                each.filters[i] = static_cast<float>(each.filters[i] * each.factors[i / of_filter]);
            const size_2d window{shape[2], shape[3]};
            work.numbers =
                work.what == image_work::convolve_channels
                    ? numbers_.add_channel_filters(each.filters, addends, window)
                    : numbers_.add_filters(each.filters, addends, work.groups, shape[1], window, work.shuffled_groups);
            each.filters = {};
        }
    }

    const prepared_graph& in_;
    number_packer& numbers_;
    std::vector<std::size_t> readers_;
    std::vector<slot> same_;           // the value that is meant
    std::vector<std::size_t> givers_;  // the draft that gives the value
    std::vector<draft> drafts_;
};

}  // namespace

image_recipe recipe_of(const prepared_graph& in, number_packer& numbers) { return recipe_maker(in, numbers).make(); }

}  // namespace sluice::nn::detail

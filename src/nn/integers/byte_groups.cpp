// SPDX-License-Identifier: Apache-2.0
#include "nn/integers/byte_groups.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "nn/graph_run.hpp"
#include "nn/images/recipe.hpp"
#include "nn/passes/steps.hpp"
#include "sluice/base/error.hpp"

namespace sluice::nn::detail {
namespace {

constexpr std::size_t all_bytes = 256, no_input = ~std::size_t{0};

// What is between the dequantizations and the quantization.
struct byte_core {
    byte_operator what{};
    std::size_t step = 0;
    std::vector<std::size_t> after;  // the steps that follow it, in order; the last one quantizes
    bool has_relu = false;
};

class group_search {
public:
    explicit group_search(const prepared_graph& in) : in_(in), readers_(only_readers(in)), givers_(givers(in)) {}

    // Of the step, if it gives bytes.
    std::optional<byte_core> core_at(std::size_t at) const {
        const step& closes = in_.steps[at];
        if (is_join(closes)) return byte_core{byte_operator::join, at, {}, false};
        if (!is(closes, "QuantizeLinear") || !byte_scale_of(in_, closes)) return {};
        // Bytes that become other bytes, without an operator in between.
        if (dequantization_of(closes.inputs[0]) != no_step) return byte_core{byte_operator::map, at, {at}, false};
        byte_core made{.what = byte_operator::map, .step = only_giver(closes.inputs[0]), .after = {at}};
        if (made.step == no_step) return {};
        if (is(in_.steps[made.step], "Relu")) {
            const std::size_t before = only_giver(in_.steps[made.step].inputs[0]);
            if (before != no_step && kind_of(in_.steps[before]) != byte_operator::map) {
                made.after.insert(made.after.begin(), made.step);
                made.step = before;
                made.has_relu = true;
            }
        }
        made.what = kind_of(in_.steps[made.step]);
        if (made.what == byte_operator::join && made.has_relu) return {};
        return made;
    }

    // Calls function(step, input) for what a group that the step closes would dequantize, or an operator that moves
    // what it quantizes.
    template <typename Function>
    void for_dequantized(std::size_t at, const Function& function) const {
        const std::optional<byte_core> core = core_at(at);
        if (!core) return;
        if (!core->after.empty() && only_moves(in_.steps[core->step]) &&
            dequantization_of(in_.steps[core->step].inputs[0]) != no_step)
            return function(core->step, 0);
        if (core->what == byte_operator::map) {
            const std::optional<std::size_t> first = first_of_chain(at);
            if (first) function(*first, place_of_changed(in_.steps[*first]));
            return;
        }
        const step& of = in_.steps[core->step];
        for (std::size_t i = 0; i < of.inputs.size(); ++i)
            if (dequantization_of(of.inputs[i]) != no_step) function(core->step, i);
    }

    std::optional<byte_group> group_at(std::size_t at) const {
        const std::optional<byte_core> core = core_at(at);
        if (!core) return {};
        byte_group made;
        made.what = core->what;
        made.core = core->step;
        made.has_relu = core->has_relu;
        made.gives = byte_scale_of(in_, in_.steps[at]);
        if (made.what == byte_operator::map) return chain_to(at, std::move(made));
        made.steps = core->after;
        made.steps.push_back(core->step);
        const step& of = in_.steps[core->step];
        const std::size_t count = made.what == byte_operator::average ? 1 : of.inputs.size();
        for (std::size_t i = 0; i < count; ++i) {
            if (!made.gives) {  // bytes
                if (of.inputs[i] == no_slot || in_.constants.contains(of.inputs[i])) return {};
                made.parts.push_back({of.inputs[i], {}});
            } else if (!add_part(made, of.inputs[i], core->step)) {
                return {};
            }
        }
        std::ranges::sort(made.steps);
        return made;
    }

private:
    bool is_plain(const step& of) const {
        return !of.is_on_host && of.inner.empty() && of.stretch == nullptr && of.layers == nullptr &&
               of.outputs.size() == 1 && of.outputs[0] != no_slot;
    }
    bool is_join(const step& of) const {
        return is(of, "Concat") && is_plain(of) && integer(of, "axis", 0) == 1 &&
               std::ranges::all_of(of.inputs, [&](slot each) { return each != no_slot && gives_bytes(each); });
    }
    // Whether it is surely bytes.
    bool gives_bytes(slot value) const {
        if (givers_[value] == no_step) return false;
        const step& giver = in_.steps[givers_[value]];
        if (is(giver, "QuantizeLinear")) return byte_scale_of(in_, giver).has_value();
        return giver.layers != nullptr && giver.layers->quantized &&
               giver.layers->quantized->numbers.y_type != io::dtype::f32;
    }
    // The step that gives a value that only one step reads.
    std::size_t only_giver(slot value) const {
        if (value == no_slot || readers_[value] >= several_steps || in_.needed_on_host[value]) return no_step;
        const std::size_t giver = givers_[value];
        return giver == no_step || !is_plain(in_.steps[giver]) ? no_step : giver;
    }
    std::size_t dequantization_of(slot value) const {
        if (value == no_slot || givers_[value] == no_step || in_.needed_on_host[value]) return no_step;
        const step& giver = in_.steps[givers_[value]];
        const bool is_one = is(giver, "DequantizeLinear") && byte_scale_of(in_, giver) && is_plain(giver) &&
                            !in_.constants.contains(giver.inputs[0]);
        return is_one ? givers_[value] : no_step;
    }
    byte_operator kind_of(const step& of) const {
        const bool is_pair = (is(of, "Add") || is(of, "Mul")) && of.opset >= 7;
        if (is_pair && dequantization_of(of.inputs[0]) != no_step && dequantization_of(of.inputs[1]) != no_step)
            return is(of, "Add") ? byte_operator::sum : byte_operator::product;
        if (is(of, "GlobalAveragePool") || is(of, "AveragePool") || is_mean_of_image(in_, of))
            return byte_operator::average;
        return is(of, "Concat") && integer(of, "axis", 0) == 1 ? byte_operator::join : byte_operator::map;
    }

    bool add_part(byte_group& to, slot numbers, std::size_t reader) const {
        const std::size_t opens = dequantization_of(numbers);
        if (opens == no_step || readers_[numbers] != reader) return false;
        to.parts.push_back({in_.steps[opens].inputs[0], byte_scale_of(in_, in_.steps[opens])});
        to.steps.push_back(opens);
        return true;
    }

    // The step that reads what is dequantized, from which operators of elements lead to this one.
    std::optional<std::size_t> first_of_chain(std::size_t at) const {
        for (std::size_t by = at;;) {
            const std::size_t input = place_of_changed(in_.steps[by]);
            if (input == no_input) return {};
            const slot value = in_.steps[by].inputs[input];
            if (dequantization_of(value) != no_step) return by;
            by = only_giver(value);
            if (by == no_step || !is_of_elements(in_.steps[by])) return {};
        }
    }
    std::optional<byte_group> chain_to(std::size_t at, byte_group made) const {
        const std::optional<std::size_t> first = first_of_chain(at);
        if (!first || !add_part(made, in_.steps[*first].inputs[place_of_changed(in_.steps[*first])], *first)) return {};
        for (std::size_t by = at;; by = givers_[in_.steps[by].inputs[place_of_changed(in_.steps[by])]]) {
            made.steps.push_back(by);
            if (by == *first) break;
        }
        std::ranges::sort(made.steps);
        return made;
    }
    static bool is_of_elements(const step& of) {
        return of.what->fused_inputs != operators::none && !of.what->is_random && of.opset >= 7;
    }
    // The only input that is no constant of one element.
    std::size_t place_of_changed(const step& of) const {
        std::size_t found = no_input;
        for (std::size_t i = 0; i < of.inputs.size(); ++i) {
            if (of.inputs[i] == no_slot) continue;
            const auto constant = in_.constants.find(of.inputs[i]);
            if (constant != in_.constants.end()) {
                if (constant->second.elements() != 1 || constant->second.shape().size() > 2) return no_input;
                continue;
            }
            if (found != no_input) return no_input;
            found = i;
        }
        return found;
    }

    const prepared_graph& in_;
    const std::vector<std::size_t> readers_, givers_;
};

}  // namespace

std::vector<std::optional<byte_group>> byte_groups(const prepared_graph& in) {
    const group_search search(in);
    std::vector<std::optional<byte_group>> made(in.steps.size());
    for (std::size_t i = 0; i < made.size(); ++i) made[i] = search.group_at(i);
    return made;
}

void divide_dequantizations(prepared_graph& in) {
    std::vector<std::vector<std::size_t>> shared(in.steps.size());  // of each step the inputs
    {
        const group_search search(in);
        const std::vector<std::size_t> readers = only_readers(in);
        for (std::size_t i = 0; i < in.steps.size(); ++i)
            search.for_dequantized(i, [&](std::size_t by, std::size_t input) {
                if (readers[in.steps[by].inputs[input]] == several_steps) shared[by].push_back(input);
            });
    }
    const std::vector<std::size_t> from = givers(in);
    const std::vector<step> given = in.steps;
    in.steps.clear();
    for (std::size_t i = 0; i < given.size(); ++i) {
        step reads = given[i];
        for (const std::size_t each : shared[i]) {
            step opens = given[from[reads.inputs[each]]];
            opens.outputs[0] = static_cast<slot>(in.slots++);
            in.needed_on_host.push_back(false);
            reads.inputs[each] = opens.outputs[0];
            in.steps.push_back(std::move(opens));
        }
        in.steps.push_back(std::move(reads));
    }
    erase_unread_dequantizations(in);
}

std::optional<byte_table> table_of(const prepared_graph& in, const byte_group& of, const model& from) {
    const bool from_signed = of.parts[0].scale->type == io::dtype::i8, to_signed = of.gives->type == io::dtype::i8;
    std::string bytes(all_bytes, '\0');
    for (std::size_t i = 0; i < all_bytes; ++i) bytes[i] = static_cast<char>(from_signed ? i ^ 0x80 : i);
    const any_tensor x(
        constant{of.parts[0].scale->type, {1, 1, 1, all_bytes}, std::make_shared<const std::string>(bytes)});
    try {
        const std::vector<any_tensor> made =
            graph_run(from, nullptr, nullptr)(part_of(in, of.steps), {x}, nullptr, operators::place::host);
        if (made.size() != 1 || made[0].type() != of.gives->type || made[0].elements() != all_bytes) return {};
        byte_table table;
        const auto given = made[0].bytes();
        for (std::size_t i = 0; i < all_bytes; ++i)
            table[i] = static_cast<std::uint8_t>(std::to_integer<unsigned>(given[i]) ^ (to_signed ? 0x80u : 0u));
        return table;
    } catch (const error&) {
        return {};  // the network says why where it runs
    }
}

byte_table table_between(const std::optional<byte_scale>& from, const std::optional<byte_scale>& to) {
    byte_table made;
    std::iota(made.begin(), made.end(), std::uint8_t{0});
    if (!from || !to || *from == *to) return made;
    const auto kept_zero = [](const byte_scale& of) { return of.zero + (of.type == io::dtype::i8 ? 128 : 0); };
    for (std::size_t i = 0; i < made.size(); ++i) {
        const float number = static_cast<float>(static_cast<std::int32_t>(i) - kept_zero(*from)) * from->scale;
        const float q =
            std::nearbyint(std::clamp(number / to->scale, -0x1p20f, 0x1p20f)) + static_cast<float>(kept_zero(*to));
        made[i] = static_cast<std::uint8_t>(std::clamp(q, 0.0f, 255.0f));
    }
    return made;
}

}  // namespace sluice::nn::detail

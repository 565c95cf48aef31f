// SPDX-License-Identifier: Apache-2.0
#include "nn/attention/attention_step.hpp"

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <utility>

#include "nn/images/shapes.hpp"
#include "nn/operators/expression.hpp"
#include "nn/operators/node_call.hpp"
#include "nn/passes/steps.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/execution_context.hpp"

namespace sluice::nn::detail {

using kernels::attention_call;
using kernels::attention_mask;
using kernels::attention_operand;
using operators::lengths;

namespace {

constexpr std::size_t batch_dimensions = 2;  // batch and head

bool is_number_type(io::dtype type) {
    return type == io::dtype::f32 || type == io::dtype::f16 || type == io::dtype::bf16;
}

// The factors of products of this type.
io::dtype factors_of(io::dtype type, precision what, device_kind on) {
    if (type != io::dtype::f32 || on == device_kind::cpu) return type;
    return what == precision::f16 ? io::dtype::f16 : what == precision::bf16 ? io::dtype::bf16 : io::dtype::f32;
}

// The dimensions before the last two are batches, of this many as the kernel counts them. Nothing where the value has
// others; one that has a single batch has it for all.
std::optional<attention_operand> operand_of(const strided_value& x, const lengths& all_batches,
                                            const lengths& batches) {
    const std::size_t rank = x.shape.size();
    if (rank < 2 || rank > all_batches.size() + 2) return {};
    lengths own(x.shape.begin(), x.shape.end() - 2);
    own.insert(own.begin(), all_batches.size() - own.size(), 1);
    attention_operand made{static_cast<const std::byte*>(x.memory.memory()->data()) +
                               x.begin * static_cast<std::int64_t>(io::size_of(x.memory.type())),
                           {},
                           x.memory.type(),
                           0};
    const auto stride_of = [](const strided_value& of, std::size_t d) -> std::optional<std::int64_t> {
        const strided_value::digits& all = of.dimensions[d];
        if (all.size() > 1) return {};
        return all.empty() ? 0 : all.front().stride;
    };
    lengths to = own == all_batches ? batches : own;
    if (own != all_batches) {
        // In the same dimensions, of which some are repeated.
        if (all_batches.size() > batch_dimensions) return {};
        to.insert(to.begin(), batch_dimensions - to.size(), 1);
        for (std::size_t d = 0; d < to.size(); ++d)
            if (to[d] != 1 && to[d] != batches[d]) return {};
    }
    to.insert(to.end(), x.shape.end() - 2, x.shape.end());
    const auto seen_so = x.reshaped(to);
    if (!seen_so) return {};
    for (std::size_t d = 0; d < attention_operand::rank; ++d) {
        const auto stride = stride_of(*seen_so, d);
        if (!stride) return {};
        made.strides[d] = *stride;
    }
    return made;
}

// How the kernel counts batches of these lengths: as batch and head. Several batches that are one dimension become two
// where one of the values has them so.
std::optional<lengths> batches_of(const lengths& all, std::initializer_list<const strided_value*> values) {
    if (all.size() > batch_dimensions) return {};
    lengths made(batch_dimensions - all.size(), 1);
    made.insert(made.end(), all.begin(), all.end());
    if (all.size() != 1) return made;
    for (const strided_value* const each : values) {
        if (each->shape.size() != 3 || each->dimensions[0].size() < 2) continue;
        if (each->dimensions[0].size() > 2) return {};
        return lengths{each->dimensions[0][0].length, each->dimensions[0][1].length};
    }
    return made;
}

}  // namespace

// A value that the command reads where it is, times numbers; and the masks of scores.
struct attention_step::seen {
    strided_value value;
    std::vector<std::pair<slot, bool>> scales = {};  // and whether it is divided by them
    std::vector<std::pair<attention_mask, any_tensor>> masks = {};
    std::vector<any_tensor> memory = {};  // of the numbers and masks
};

struct attention_step::found_call {
    attention_call call;
    std::vector<any_tensor> reads;
    lengths all_batches, batches;  // of the nodes, and of the kernel
};

attention_step::attention_step(prepared_graph steps, attention_recipe recipe, precision what, std::uint32_t host_inputs,
                               std::vector<bool> narrow_inputs, bool gives_narrow)
    : joined_steps(std::move(steps), std::move(narrow_inputs)),
      recipe_(std::move(recipe)),
      what_(what),
      gives_narrow_(gives_narrow),
      rounded_inputs_(body().inputs.size(), rounds()),
      definition_{.name = "Attention",
                  .least_inputs = 0,
                  .most_inputs = operators::any_number,
                  .most_outputs = 1,
                  .attributes = {},
                  .run = nullptr,
                  .host_inputs = host_inputs} {
    // All but what steps take in addition to the values that they move and multiply.
    for (std::size_t at = 0; at < body().steps.size(); ++at) {
        const step& each = body().steps[at];
        const bool is_product = at == recipe_.product || at == recipe_.sums;
        const auto path = recipe_.path.find(at);
        const std::size_t through = path != recipe_.path.end() ? path->second : 0;
        for (std::size_t i = 0; i < each.inputs.size(); ++i) {
            const auto of = std::ranges::find(body().inputs, each.inputs[i]);
            if (of != body().inputs.end() && !is_product && i != through)
                rounded_inputs_[static_cast<std::size_t>(of - body().inputs.begin())] = false;
        }
    }
}

bool attention_step::rounds_input(std::size_t input) const { return rounded_inputs_[input]; }

std::shared_ptr<const attention_step> attention_step::narrowed(std::vector<bool> inputs, bool gives_narrow) const {
    return std::make_shared<const attention_step>(body(), recipe_, what_, definition_.host_inputs, std::move(inputs),
                                                  gives_narrow);
}

// Mul or Div by one number.
bool attention_step::add_scale(seen& to, std::size_t at, const std::vector<any_tensor>& values) const {
    const step& of = body().steps[at];
    const slot by = of.inputs[1 - recipe_.path.at(at)];
    const any_tensor& number = values[by];
    if (number.elements() != 1 || !is_number_type(number.type())) return false;
    if (!number.is_on_device() && !number.is_on_host()) return false;
    to.scales.emplace_back(by, is(of, "Div"));
    if (number.is_on_device()) to.memory.push_back(number);
    return to.scales.size() <= attention_call::most_scales;
}

// Add of numbers, or Where with one number for the scores that are not kept. It does not make the scores more.
bool attention_step::add_mask(seen& to, std::size_t at, const std::vector<any_tensor>& values) const {
    const step& of = body().steps[at];
    const std::size_t path = recipe_.path.at(at);
    const bool is_added = is(of, "Add");
    const any_tensor& mask = values[of.inputs[is_added ? 1 - path : 0]];
    if (values[of.outputs[0]].shape() != to.value.shape || !mask.is_on_device()) return false;
    attention_mask made{};
    if (is_added) {
        if (!is_number_type(mask.type()) || mask.type() != values[of.inputs[path]].type()) return false;
        made.what = attention_mask::kind::added;
        made.type = mask.type();
    } else {
        const any_tensor& otherwise = values[of.inputs[3 - path]];
        if (otherwise.elements() != 1 || !is_number_type(otherwise.type()) || !otherwise.is_on_device()) return false;
        made.what = path == 1 ? attention_mask::kind::kept_where_true : attention_mask::kind::kept_where_false;
        made.type = otherwise.type();
        made.otherwise = otherwise.memory()->data();
        to.memory.push_back(otherwise);
    }
    to.masks.emplace_back(made, mask);
    to.memory.push_back(mask);
    return to.masks.size() <= attention_call::most_masks;
}

bool attention_step::see_step(std::map<slot, seen>& known, std::size_t at,
                              const std::vector<any_tensor>& values) const {
    const step& of = body().steps[at];
    const slot from = of.inputs[is(of, "Mul") || is(of, "Div") ? recipe_.path.at(at) : 0];
    if (!known.contains(from)) {
        if (!values[from].is_on_device()) return false;
        known.emplace(from, seen{strided_value::of(values[from])});
    }
    const seen& x = known.at(from);
    if (!is_view(of)) {
        seen made = x;
        if (values[of.outputs[0]].shape() != x.value.shape || !add_scale(made, at, values)) return false;
        known.insert_or_assign(of.outputs[0], std::move(made));
        return true;
    }
    view_numbers numbers;
    if (const auto place = recipe_.places.find(at); place != recipe_.places.end()) numbers.first = place->second;
    const std::int64_t axis = integer(of, "axis", 0);
    const auto rank = static_cast<std::int64_t>(x.value.shape.size());
    const bool is_split = is(of, "Split");
    for (const slot each : of.outputs) {
        if (each == no_slot) {
            if (is_split) return false;  // how long it is, is not known
            continue;
        }
        const lengths& shape = values[each].shape();
        const auto made = seen_by(of, x.value, shape, numbers);
        if (!made) return false;
        known.insert_or_assign(each, seen{*made, x.scales, {}, x.memory});
        if (is_split) numbers.before += shape[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)];
    }
    return true;
}

auto attention_step::call_for(const std::vector<any_tensor>& values, device_kind on) const
    -> std::optional<found_call> {
    std::map<slot, seen> known;
    for (const std::size_t each : recipe_.views)
        if (!see_step(known, each, values)) return {};
    const step &product = body().steps[recipe_.product], &sums = body().steps[recipe_.sums];
    const auto value_of = [&](slot one) -> std::optional<seen> {
        if (const auto found = known.find(one); found != known.end()) return found->second;
        if (!values[one].is_on_device()) return {};
        return seen{strided_value::of(values[one])};
    };
    const auto q = value_of(product.inputs[0]), k = value_of(product.inputs[1]), v = value_of(sums.inputs[1]);
    if (!q || !k || !v || !v->scales.empty()) return {};
    const lengths& shape = values[product.outputs[0]].shape();
    const std::size_t rank = shape.size();
    if (rank < 2 || q->value.shape.size() < 2 || k->value.shape.size() < 2 || v->value.shape.size() < 2) return {};
    if (!is_number_type(q->value.memory.type())) return {};
    // The scores are [batch, head, query, key], and so are all that changes them.
    seen scores{{{}, shape, {}}};
    for (const seen* const each : {&*q, &*k}) {
        scores.scales.insert(scores.scales.end(), each->scales.begin(), each->scales.end());
        scores.memory.insert(scores.memory.end(), each->memory.begin(), each->memory.end());
    }
    for (const std::size_t each : recipe_.changes) {
        const step& of = body().steps[each];
        if (is(of, "Mul") || is(of, "Div")) {
            if (!scores.masks.empty() || values[of.outputs[0]].shape() != shape || !add_scale(scores, each, values))
                return {};
        } else if (!add_mask(scores, each, values)) {
            return {};
        }
    }
    if (scores.scales.size() > attention_call::most_scales) return {};
    const step& softmax = body().steps[recipe_.softmax];
    const std::int64_t axis = integer(softmax, "axis", softmax.opset < 13 ? 1 : -1);
    if (axis != -1 && axis != static_cast<std::int64_t>(rank) - 1) return {};
    const lengths& v_shape = v->value.shape;
    lengths made_shape = shape;
    made_shape.back() = v_shape.back();
    if (values[sums.outputs[0]].shape() != made_shape) return {};

    found_call made{};
    made.all_batches = lengths(shape.begin(), shape.end() - 2);
    const auto batches = batches_of(made.all_batches, {&q->value, &k->value, &v->value});
    if (!batches) return {};
    made.batches = *batches;
    attention_call& call = made.call;
    call.factors = factors_of(q->value.memory.type(), what_, on);
    call.gives_zeros = recipe_.gives_zeros ? 1 : 0;
    call.batches = (*batches)[0];
    call.heads = (*batches)[1];
    call.queries = shape[rank - 2];
    call.keys = shape[rank - 1];
    call.size = q->value.shape.back();
    call.value_size = v_shape.back();
    if (call.batches * call.heads * call.queries * call.keys * call.size * call.value_size == 0) return {};
    std::vector<std::size_t> turned_keys(k->value.shape.size());
    std::iota(turned_keys.begin(), turned_keys.end(), std::size_t{0});
    std::swap(turned_keys.end()[-1], turned_keys.end()[-2]);
    const auto of_q = operand_of(q->value, made.all_batches, *batches),
               of_k = operand_of(*k->value.in_order(turned_keys), made.all_batches, *batches),
               of_v = operand_of(v->value, made.all_batches, *batches);
    if (!of_q || !of_k || !of_v) return {};
    call.q = *of_q;
    call.k = *of_k;
    call.v = *of_v;
    for (const auto& [by, is_divisor] : scores.scales) {
        const any_tensor& number = values[by];
        kernels::attention_scale& to = call.scale[call.scales++];
        to = {nullptr, 1, is_divisor ? 1u : 0u, number.type(), 0};
        if (number.is_on_device()) {
            to.at = number.memory()->data();
        } else {
            to.value = kernels::attention_number(number.bytes().data(), number.type());
        }
    }
    for (auto& [mask, numbers] : scores.masks) {
        strided_value wide = strided_value::of(numbers);
        if (wide.shape.size() < 2) {
            wide.shape.insert(wide.shape.begin(), 2 - wide.shape.size(), 1);
            wide.dimensions.insert(wide.dimensions.begin(), 2 - wide.dimensions.size(), {});
        }
        const auto of_mask = operand_of(wide, made.all_batches, *batches);
        if (!of_mask) return {};
        mask.at = of_mask->at;
        std::ranges::copy(of_mask->strides, mask.strides);
        call.mask[call.masks++] = mask;
    }
    made.reads = {q->value.memory, k->value.memory, v->value.memory};
    made.reads.insert(made.reads.end(), scores.memory.begin(), scores.memory.end());
    return made;
}

std::optional<std::vector<any_tensor>> attention_step::submit(const std::filesystem::path& path,
                                                              execution_context& context,
                                                              std::span<const any_tensor> inputs) const {
    const device& on = context.device();
    // The steps see f32 where a value has come in 16 bits; the command reads it as it is.
    std::vector<any_tensor> seen_inputs(inputs.begin(), inputs.end());
    widen(path, nullptr, seen_inputs);
    std::vector<any_tensor> values = image_shapes(body(), path, seen_inputs);
    for (std::size_t i = 0; i < inputs.size(); ++i) values[body().inputs[i]] = inputs[i];
    auto found = call_for(values, on.kind());
    if (!found) return {};
    const io::dtype type = gives_narrow_ ? found->call.factors : values[body().steps.back().outputs[0]].type();
    found->call.y.type = type;
    if (!kernels::has_attention(found->call, on.properties())) return {};
    const step& last = body().steps.back();
    const operators::run_environment environment{
        .path = &path, .command_name = definition_.name, .context = &context, .run_graph = {}};
    std::vector<any_tensor> outputs(1);
    operators::node_call call(environment, *last.from, last.position, last.opset, operators::place::device, inputs,
                              outputs);
    const any_tensor& y = call.make_output(0, type, values[last.outputs[0]].shape());
    strided_value to = strided_value::of(y);
    // As the product gives it: seen through the views that come after it, from the last one.
    for (auto at = recipe_.after.rbegin(); at != recipe_.after.rend(); ++at) {
        const step& view = body().steps[*at];
        const auto before = seen_before(view, to, values[view.inputs[0]].shape());
        if (!before) return {};
        to = *before;
    }
    const auto of_y = operand_of(to, found->all_batches, found->batches);
    if (!of_y || (found->call.value_size > 1 && of_y->strides[3] != 1)) return {};
    found->call.y = *of_y;
    std::vector<memory_access> accesses{{y.memory(), access_mode::write}};
    for (const any_tensor& each : found->reads)
        if (std::ranges::find(accesses, each.memory(), &memory_access::memory) == accesses.end())
            accesses.push_back({each.memory(), access_mode::read});
    const launch_command command = kernels::attention_command(found->call, on.properties());
    context.stream().launch({definition_.name, accesses}, command);
    return outputs;
}

}  // namespace sluice::nn::detail

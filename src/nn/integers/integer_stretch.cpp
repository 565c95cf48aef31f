// SPDX-License-Identifier: Apache-2.0
#include "nn/integers/integer_stretch.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "nn/images/shapes.hpp"
#include "nn/images/stretch.hpp"
#include "nn/passes/steps.hpp"
#include "sluice/runtime/detail/closure.hpp"
#include "sluice/runtime/execution_context.hpp"

namespace sluice::nn::detail {
namespace {

using kernels::byte_quantity;
using kernels::integer_call;
using kernels::integer_step;
using kernels::integer_work;

bool is_byte_type(io::dtype type) { return type == io::dtype::u8 || type == io::dtype::i8; }
std::int32_t kept_zero(std::int32_t zero, io::dtype type) { return type == io::dtype::i8 ? zero + 128 : zero; }

const operators::quantized_operator* quantized_of(const step& of) {
    return of.layers != nullptr && of.layers->quantized ? &*of.layers->quantized : nullptr;
}

// Of an image of one or two dimensions, or a row.
std::optional<kernels::image_size> size_of(const operators::lengths& shape) {
    if (shape.size() < 2 || shape.size() > 4 || std::ranges::find(shape, std::size_t{0}) != shape.end()) return {};
    return kernels::image_size{shape[1], shape.size() == 4 ? shape[2] : 1, shape.size() > 2 ? shape.back() : 1};
}

// How the elements of `other` meet those of `all`.
std::optional<kernels::image_spread> spread_of(const kernels::image_size& all, const kernels::image_size& other,
                                               const kernels::image_size& out) {
    if (all != out) return {};
    if (other == out) return kernels::image_spread::none;
    if (other == kernels::image_size{out.channels, 1, 1}) return kernels::image_spread::pixels;
    if (other == kernels::image_size{1, out.height, out.width}) return kernels::image_spread::channels;
    return {};
}
// Whether the sum of a window is within 32 bits.
bool can_be_summed(const kernels::image_window& window) {
    constexpr std::size_t most = std::size_t{1} << 22;
    return window.size.height <= most && window.size.width <= most / window.size.height;
}

void run_integers_on_host(const void* closure) {
    kernels::run_integer_program(*static_cast<const integer_call*>(closure));
}

}  // namespace

integer_role integer_role_of(const prepared_graph& in, std::size_t which) {
    const step& of = in.steps[which];
    if (of.is_on_host || of.stretch != nullptr || !of.inner.empty()) return integer_role::none;
    if (const operators::quantized_operator* const made = quantized_of(of)) {
        if (!is_byte_type(made->numbers.y_type)) return integer_role::none;
        return made->is_convolution ? integer_role::convolution : integer_role::layer;
    }
    if (is(of, "QuantizeLinear") && byte_scale_of(in, of)) return integer_role::quantize;
    if (is(of, "DequantizeLinear") && byte_scale_of(in, of)) return integer_role::dequantize;
    if (is(of, "Flatten") && integer(of, "axis", 1) == 1) return integer_role::flatten;
    if (is(of, "MaxPool") && of.outputs.size() == 1) return integer_role::pooling;
    return integer_role::none;
}

integer_stretch::integer_stretch(prepared_graph of, const integer_weights& weights, const model& from, device& on)
    : joined_steps(std::move(of)), on_(on) {
    kernels::integer_numbers numbers;
    is_possible_ = read_body(weights, from, numbers);
    if (is_possible_) numbers_ = bytes_on_device(on_, numbers.all().data(), numbers.all().size());
}

// What comes in as bytes, the steps, and what goes out as bytes.
bool integer_stretch::read_body(const integer_weights& weights, const model& from, kernels::integer_numbers& numbers) {
    const prepared_graph& in = body();
    if (in.inputs.size() + in.outputs.size() > kernels::most_outside_integers) return false;
    std::vector<std::size_t> channels(in.slots, 0);  // where they are known
    input_types_.assign(in.inputs.size(), io::dtype::f32);
    for (std::size_t i = 0; i < in.inputs.size(); ++i) {
        const auto reader = std::ranges::find_if(in.steps, [&](const step& each) {
            return std::ranges::find(each.inputs, in.inputs[i]) != each.inputs.end();
        });
        if (is(*reader, "QuantizeLinear")) continue;
        const operators::quantized_operator* const made = quantized_of(*reader);
        if (made == nullptr || !made->is_convolution) return false;
        input_types_[i] = made->numbers.x_type;
        work& enters = works_.emplace_back();
        enters.what = integer_work::enter;
        enters.out = in.inputs[i];
        enters.outside = i;
        enters.is_signed = input_types_[i] == io::dtype::i8;
    }
    const std::vector<std::optional<byte_group>> groups = byte_groups(in);
    std::vector<bool> is_of_group(in.steps.size(), false);
    for (const auto& group : groups)
        if (group)
            for (const std::size_t each : group->steps) is_of_group[each] = true;
    for (std::size_t i = 0; i < in.steps.size(); ++i) {
        if (groups[i]) {
            if (!add_group(*groups[i], from, numbers, channels)) return false;
        } else if (!is_of_group[i] && !add_work(in.steps[i], i, weights, numbers, channels)) {
            return false;
        }
    }
    for (std::size_t i = 0; i < in.outputs.size(); ++i) {
        const auto giver = std::ranges::find(works_, in.outputs[i], &work::out);
        if (giver == works_.end() || giver->is_flat) return false;
        if (giver->what == integer_work::dequantize) {
            giver->outside = in.inputs.size() + i;
            continue;
        }
        work leaves;
        leaves.what = integer_work::leave;
        leaves.in = in.outputs[i];
        leaves.outside = in.inputs.size() + i;
        leaves.is_signed = giver->is_signed;
        works_.push_back(leaves);
    }
    return std::ranges::none_of(works_, [&](const work& each) {
        return each.what == integer_work::dequantize && each.outside < in.inputs.size();
    });
}

bool integer_stretch::add_work(const step& of, std::size_t at, const integer_weights& weights,
                               kernels::integer_numbers& numbers, std::vector<std::size_t>& channels) {
    const prepared_graph& in = body();
    work made;
    made.in = of.inputs[0];
    made.out = of.outputs[0];
    made.step = at;
    const auto giver = std::ranges::find(works_, made.in, &work::out);
    made.is_signed = giver != works_.end() && giver->is_signed;
    channels[made.out] = channels[made.in];
    switch (integer_role_of(in, at)) {
        case integer_role::none: return false;
        case integer_role::quantize:
        case integer_role::dequantize: {
            const byte_scale as = *byte_scale_of(in, of);
            made.quantity = {as.scale, kept_zero(as.zero, as.type)};
            made.is_signed = as.type == io::dtype::i8;
            made.what = is(of, "QuantizeLinear") ? integer_work::quantize : integer_work::dequantize;
            if (made.what == integer_work::dequantize) break;
            const auto place = std::ranges::find(in.inputs, made.in);
            if (place == in.inputs.end()) return false;
            made.outside = static_cast<std::size_t>(place - in.inputs.begin());
            break;
        }
        case integer_role::pooling: made.what = integer_work::maximum; break;
        case integer_role::flatten: made.is_flat = true; break;
        case integer_role::convolution:
        case integer_role::layer: {
            const operators::quantized_operator& what = *quantized_of(of);
            const auto found = weights.find(of.layers.get());
            if (found == weights.end()) return false;
            const std::vector<kernels::integer_layer>& layers = found->second;
            const byte_quantity x{what.numbers.x_scale, kept_zero(what.numbers.x_zero, what.numbers.x_type)};
            made.groups = layers.size();
            made.quantity = {what.numbers.y_scale, kept_zero(what.numbers.y_zero, what.numbers.y_type)};
            made.is_signed = what.numbers.y_type == io::dtype::i8;
            made.has_relu = what.numbers.after == activation::relu;
            made.fill = static_cast<std::uint8_t>(x.zero);
            made.what = integer_work::convolve;
            made.is_layer = !what.is_convolution;
            kernels::image_window window;
            std::size_t channels_of_group = 0;
            if (made.is_layer) {
                // Weights are in the order channel, pixel.
                if (giver == works_.end() || (!giver->is_flat && !giver->is_layer) || channels[made.in] == 0)
                    return false;
                if (what.in_features % channels[made.in] != 0) return false;
                window.size = {1, what.in_features / channels[made.in]};
                channels_of_group = channels[made.in];
            } else {
                const operators::lengths& shape = in.constants.at(of.inputs[1]).shape();
                window.size = {shape.size() == 4 ? shape[2] : 1, shape.back()};
                channels_of_group = shape[1];
                const auto* const dilations = of.from->find<std::vector<std::int64_t>>("dilations");
                if (dilations != nullptr && !dilations->empty() && dilations->back() != 1)
                    window.dilation.width = static_cast<std::size_t>(dilations->back());
            }
            if (channels_of_group == 1 && layers.size() > 1 && layers.front().out_features == 1) {
                made.what = integer_work::convolve_channels;
                made.numbers = numbers.add_channel_filters(layers, window, x);
            } else {
                made.numbers = numbers.add_filters(layers, window, x);
            }
            channels[made.out] = layers.size() * layers.front().out_features;
            break;
        }
    }
    works_.push_back(made);
    return true;
}

bool integer_stretch::add_group(const byte_group& group, const model& from, kernels::integer_numbers& numbers,
                                std::vector<std::size_t>& channels) {
    const prepared_graph& in = body();
    const auto quantity_of = [](const byte_scale& of) { return byte_quantity{of.scale, kept_zero(of.zero, of.type)}; };
    const auto first = std::ranges::find(works_, group.parts[0].bytes, &work::out);
    if (first == works_.end()) return false;
    work made;
    made.in = group.parts[0].bytes;
    made.out = in.steps[group.steps.back()].outputs[0];
    made.step = group.core;
    made.has_relu = group.has_relu;
    made.is_signed = group.gives ? group.gives->type == io::dtype::i8 : first->is_signed;
    channels[made.out] = channels[made.in];
    if (group.what != byte_operator::join && group.what != byte_operator::map) {
        made.quantity = quantity_of(*group.gives);
        made.read = quantity_of(*group.parts[0].scale);
    }
    switch (group.what) {
        case byte_operator::sum:
        case byte_operator::product:
            made.what = group.what == byte_operator::sum ? integer_work::add : integer_work::multiply;
            made.also = group.parts[1].bytes;
            made.also_read = quantity_of(*group.parts[1].scale);
            channels[made.out] = std::max(channels[made.in], channels[made.also]);
            break;
        case byte_operator::average:
            made.what = integer_work::average;
            made.counts_padding = integer(in.steps[group.core], "count_include_pad", 0) != 0;
            break;
        case byte_operator::map: {
            const std::optional<byte_table> table = table_of(in, group, from);
            if (!table) return false;
            made.what = integer_work::map;
            made.numbers = numbers.add_table(*table);
            break;
        }
        case byte_operator::join:
            made.what = integer_work::map;
            made.is_part = true;
            channels[made.out] = 0;
            for (const byte_group::part& each : group.parts) {
                made.in = each.bytes;
                made.numbers = numbers.add_table(table_between(each.scale, group.gives));
                works_.push_back(made);
                made.parts_before.push_back(each.bytes);
                channels[made.out] += channels[each.bytes];
            }
            return true;
    }
    works_.push_back(made);
    return true;
}

// --- for inputs of some shapes -------------------------------------------------------------------------------------

// Where values are.
struct integer_stretch::planner {
    struct value {
        std::size_t source = 0;  // another value, where this one is flattened
        kernels::image_size size;
        kernels::image_border border;
        std::uint8_t fill = 0;
        bool has_fill = false;
        std::size_t last = 0;  // the last work that uses it
        std::size_t begin = 0, bytes = 0;
        kernels::image_place at;
    };
    std::vector<value> values;

    explicit planner(std::size_t slots) : values(slots) {
        for (std::size_t i = 0; i < slots; ++i) values[i].source = i;
    }
    value& of(slot which) { return values[values[which].source]; }

    // A window reads around the value. Whether all windows find the same there.
    bool read_around(value& by, const kernels::image_border& border, std::uint8_t fill) {
        const bool reads = border.top + border.left + border.bottom + border.right != 0;
        if (!reads) return true;
        if (by.has_fill && by.fill != fill) return false;
        by.has_fill = true;
        by.fill = fill;
        by.border = {std::max(by.border.top, border.top), std::max(by.border.left, border.left),
                     std::max(by.border.bottom, border.bottom), std::max(by.border.right, border.right)};
        return true;
    }

    // The lowest place that no value has while this one is in use: from work `first` on.
    std::size_t place(value& what, const std::vector<value*>& live) {
        const kernels::image_border& border = what.border;
        const std::size_t pixel = what.size.channels;
        what.at.pixel = pixel;
        what.at.row = (border.left + what.size.width + border.right) * pixel;
        what.bytes =
            ((border.top + what.size.height + border.bottom) * what.at.row + kernels::integer_slack + 63) / 64 * 64;
        std::vector<const value*> taken(live.begin(), live.end());
        std::ranges::sort(taken, {}, &value::begin);
        std::size_t begin = 0;
        for (const value* const each : taken) {
            if (each->begin >= begin + what.bytes) break;
            begin = std::max(begin, each->begin + each->bytes);
        }
        what.begin = begin;
        what.at.first = begin + border.top * what.at.row + border.left * pixel;
        return begin + what.bytes;
    }
};

auto integer_stretch::make_program(const std::filesystem::path& path, std::span<const any_tensor> inputs) const
    -> std::shared_ptr<const program> {
    std::vector<any_tensor> shapes = image_shapes(body(), path, inputs);
    planner plan(body().slots);
    std::vector<integer_step> steps;
    std::optional<std::size_t> images;
    std::vector<bool> is_exchanged(works_.size(), false);  // of a pair the second value has all elements
    // Sizes and borders.
    for (std::size_t i = 0; i < works_.size(); ++i) {
        const work& each = works_[i];
        const slot known = each.out != no_slot ? each.out : each.in;
        const operators::lengths& shape = shapes[known].shape();
        const auto size = size_of(shape);
        if (!size || (images && *images != shape[0])) return nullptr;
        images = shape[0];
        if (each.is_flat) {
            plan.values[each.out].source = plan.values[each.in].source;
            if (size->elements() != plan.of(each.in).size.elements()) return nullptr;
            continue;
        }
        integer_step made;
        made.what = each.what;
        made.outside = static_cast<std::uint32_t>(each.outside);
        made.is_signed = each.is_signed;
        made.has_relu = each.has_relu;
        made.groups = each.groups;
        made.numbers = each.numbers;
        made.quantity = each.quantity;
        made.read = each.read;
        made.also_read = each.also_read;
        made.counts_padding = each.counts_padding;
        made.in = made.out = *size;
        const bool reads = each.what != integer_work::enter && each.what != integer_work::quantize;
        const bool writes = each.what != integer_work::leave && each.what != integer_work::dequantize;
        if (reads) {
            planner::value& from = plan.of(each.in);
            made.in = from.size;
            from.last = i;
            if (each.is_layer) {
                made.in = {from.size.channels, 1, from.size.height * from.size.width};
                made.window.size = {1, made.in.width};
            } else if (each.what == integer_work::convolve || each.what == integer_work::convolve_channels ||
                       each.what == integer_work::maximum || each.what == integer_work::average) {
                made.window = image_window_of(body().steps[each.step], from.size, path, shapes);
            }
            if (each.what == integer_work::average && !can_be_summed(made.window)) return nullptr;
            if (each.what == integer_work::average &&
                (made.in.channels != made.out.channels ||
                 (is(body().steps[each.step], "ReduceMean") && shape.size() != 4)))
                return nullptr;
            if (each.also != no_slot) {
                // Of values of other ranks other dimensions meet.
                if (shapes[each.in].shape().size() != shape.size() || shapes[each.also].shape().size() != shape.size())
                    return nullptr;
                const auto spread = spread_of(from.size, plan.of(each.also).size, made.out);
                const auto other = spread_of(plan.of(each.also).size, from.size, made.out);
                if (!spread && !other) return nullptr;
                is_exchanged[i] = !spread;
                made.also_spread = spread ? *spread : *other;
                plan.of(each.also).last = i;
            }
            if (each.what == integer_work::map && !each.is_part && made.in != made.out) return nullptr;
            if (each.is_part) {
                std::size_t before = 0;
                for (const slot part : each.parts_before) before += plan.of(part).size.channels;
                if (before + made.in.channels > size->channels || made.in.height != size->height ||
                    made.in.width != size->width)
                    return nullptr;
                made.out.channels = made.in.channels;
            }
            const bool is_convolution =
                each.what == integer_work::convolve || each.what == integer_work::convolve_channels;
            if (!each.is_layer && is_convolution &&
                !plan.read_around(from, kernels::border_read_by(made.window, made.in, made.out), each.fill))
                return nullptr;
            if (!writes) made.out = made.in;
            if (!writes && size->elements() != made.in.elements()) return nullptr;
        }
        if (writes) {
            planner::value& to = plan.of(each.out);
            to.size = *size;
            to.last = i;
        }
        steps.push_back(made);
    }
    // Places. Each value is live from the work that writes it to the last one that reads it.
    std::size_t bytes = 0, next = 0;
    std::vector<planner::value*> live;
    for (std::size_t i = 0; i < works_.size(); ++i) {
        const work& each = works_[i];
        if (each.is_flat) continue;
        integer_step& made = steps[next++];
        if (made.what != integer_work::leave && made.what != integer_work::dequantize) {
            planner::value& to = plan.of(each.out);
            std::erase_if(live, [&](const planner::value* one) { return one->last < i; });
            if (each.parts_before.empty()) {
                bytes = std::max(bytes, plan.place(to, live));
                live.push_back(&to);
            }
            made.to = to.at;
            made.border = to.border;
            if (!each.parts_before.empty()) made.border = {};  // the first part has written it
            for (const slot before : each.parts_before) made.to.first += plan.of(before).size.channels;
            made.fill = to.fill;
        }
        if (made.what != integer_work::enter && made.what != integer_work::quantize) {
            planner::value& from = plan.of(each.in);
            made.from = from.at;
            if (each.also != no_slot) {
                made.also = plan.of(each.also).at;
                if (is_exchanged[i]) {
                    std::swap(made.from, made.also);
                    std::swap(made.read, made.also_read);
                    made.in = made.out;
                }
            }
            const auto& around = from.border;
            // A layer reads the image as one run.
            if (each.is_layer && around.left + around.right != 0) return nullptr;
        }
    }
    auto made = std::make_shared<program>();
    for (const slot each : body().outputs) made->outputs.push_back(shapes[each]);
    made->steps = bytes_on_device(on_, steps.data(), steps.size() * sizeof(integer_step));
    made->count = steps.size();
    made->images = *images;
    made->scratch_bytes = bytes + kernels::integer_slack;
    return made;
}

std::optional<std::vector<any_tensor>> integer_stretch::submit(const std::filesystem::path& path,
                                                               execution_context& context,
                                                               std::span<const any_tensor> inputs) const {
    for (std::size_t i = 0; i < inputs.size(); ++i)
        if (!is_possible_ || inputs[i].type() != input_types_[i]) return {};
    const auto found = programs_.find(inputs, [&] { return make_program(path, inputs); });
    if (found == nullptr) return {};
    const stream on = context.stream();
    const storage_ref scratch = on.workspace(kernels::images_at_once(found->images) * found->scratch_bytes);
    std::vector<memory_access> accesses{{found->steps.memory(), access_mode::read},
                                        {numbers_.memory(), access_mode::read},
                                        {scratch.get(), access_mode::write}};
    integer_call call{.steps = static_cast<const integer_step*>(found->steps.memory()->data()),
                      .count = found->count,
                      .numbers = static_cast<const std::byte*>(numbers_.memory()->data()),
                      .scratch = static_cast<std::uint8_t*>(scratch->data()),
                      .images = found->images,
                      .scratch_bytes = found->scratch_bytes};
    std::size_t next = 0;
    for (const any_tensor& each : inputs) {
        accesses.push_back({each.memory(), access_mode::read});
        call.outside[next++] = static_cast<std::byte*>(each.memory()->data());
    }
    std::vector<any_tensor> outputs;
    for (const any_tensor& each : found->outputs) {
        outputs.push_back(each.with_memory(on.allocate(each.size_bytes(), {"integers"})));
        accesses.push_back({outputs.back().memory(), access_mode::write});
        call.outside[next++] = static_cast<std::byte*>(outputs.back().memory()->data());
    }
    launch_command command;
    command.host_function = &run_integers_on_host;
    sluice::detail::set_closure(command, call);
    on.launch({"integers", accesses, {}}, command);
    return outputs;
}

}  // namespace sluice::nn::detail

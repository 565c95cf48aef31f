// SPDX-License-Identifier: Apache-2.0
#include "run_stream.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/base/error.hpp"
#include "sluice/base/half.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/io/csv.hpp"
#include "sluice/nn/any_tensor.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/nn/run_limit.hpp"
#include "sluice/nn/session.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::app {
namespace {

[[noreturn]] void refuse_stream(const std::string& why) { throw error(errc::invalid_argument, why, {"run"}); }

void refuse_options_of_arrays(const run_options& options) {
    const std::pair<const char*, bool> given[] = {{"INPUT", !options.input.empty()},
                                                  {"--input", !options.named_inputs.empty()},
                                                  {"--output", !options.named_outputs.empty()},
                                                  {"--labels", options.labels.has_value()},
                                                  {"--reference", options.reference.has_value()},
                                                  {"--trace", options.trace.has_value()},
                                                  {"--timeline", options.timeline.has_value()},
                                                  {"--measure", options.measure_seconds.has_value()},
                                                  {"--image", !options.image.empty()},
                                                  {"--progress", options.progress},
                                                  {"--batch", options.batch != run_options().batch},
                                                  {"--streams", options.streams != 0},
                                                  {"--csv", !options.csv.empty()},
                                                  {"--activation", options.network.hidden.has_value()},
                                                  {"--output-activation", options.network.output.has_value()},
                                                  {"--precision", !options.precision.empty()}};
    for (const auto& [name, is_given] : given)
        if (is_given)
            refuse_stream(std::string(name) + " has no meaning with --stream, which reads lines from standard input");
    if (options.device == "all") refuse_stream("--stream runs on one device: name it");
}

std::vector<nn::state_pair> pairs_in(const std::vector<std::string>& words) {
    std::vector<nn::state_pair> made;
    for (const std::string& each : words) {
        const std::size_t at = each.find('=');
        if (at == std::string::npos || at == 0 || at + 1 == each.size())
            refuse_stream("--state " + in_quotes(each) + ": give OUTPUT=INPUT, such as hn=h0");
        made.push_back({each.substr(0, at), each.substr(at + 1)});
    }
    return made;
}

// The numbers of one input. Lengths that the model leaves open are 1.
nn::any_tensor tensor_of(const nn::value_info& what, std::string_view text, std::size_t line) {
    const std::string label = "line " + std::to_string(line);
    const io::csv_table numbers = io::parse_csv(std::as_bytes(std::span(text)), label, what.type,
                                                {.separator = {}, .header = io::csv_header::absent});
    std::vector<std::size_t> shape;
    std::size_t count = 1;
    if (what.shape) {
        for (const nn::dimension& each : *what.shape) {
            shape.push_back(each.length.value_or(1));
            count *= shape.back();
        }
    } else {
        shape = {count = numbers.columns};
    }
    if (count != numbers.columns) {
        throw error(errc::shape_mismatch,
                    label + ": the input " + in_quotes(what.name) + " takes " + std::to_string(count) +
                        " numbers a step, " + nn::to_string(std::span(shape)) + ", and is given " +
                        std::to_string(numbers.columns),
                    {"run"});
    }
    std::byte* to = nullptr;
    nn::any_tensor made = nn::any_tensor::make_on_host(what.type, std::move(shape), to);
    if (!numbers.bytes.empty()) std::memcpy(to, numbers.bytes.data(), numbers.bytes.size());
    return made;
}

std::vector<nn::any_tensor> tensors_in(std::string_view line, const std::vector<nn::value_info>& takes,
                                       std::size_t number) {
    std::vector<nn::any_tensor> made;
    for (std::size_t i = 0; i < takes.size(); ++i) {
        const bool is_last = i + 1 == takes.size();
        const std::size_t end = is_last ? line.size() : line.find(';');
        if (end == std::string_view::npos || (is_last && line.find(';') != std::string_view::npos)) {
            refuse_stream("line " + std::to_string(number) + ": a step takes " + std::to_string(takes.size()) +
                          " inputs, with a semicolon between two");
        }
        made.push_back(tensor_of(takes[i], line.substr(0, end), number));
        line.remove_prefix(is_last ? end : end + 1);
    }
    return made;
}

template <typename T>
void append(std::string& text, const std::byte* from, std::size_t count) {
    std::array<char, 32> room;
    for (std::size_t i = 0; i < count; ++i) {
        T value;
        std::memcpy(&value, from + i * sizeof(T), sizeof(T));
        if (i != 0) text += ',';
        std::to_chars_result end{};
        if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16>) {
            end = std::to_chars(room.data(), room.data() + room.size(), static_cast<float>(value));
        } else {
            end = std::to_chars(room.data(), room.data() + room.size(), value);
        }
        text.append(room.data(), end.ptr);
    }
}

// Numbers with as many digits as read back as the same.
void append(std::string& text, const nn::input_view& view) {
    const std::size_t count = view.form().size_bytes() / io::size_of(view.form().type());
    switch (view.form().type()) {
        case io::dtype::f16: return append<half>(text, view.data(), count);
        case io::dtype::bf16: return append<bfloat16>(text, view.data(), count);
        case io::dtype::f32: return append<float>(text, view.data(), count);
        case io::dtype::f64: return append<double>(text, view.data(), count);
        case io::dtype::i8: return append<std::int8_t>(text, view.data(), count);
        case io::dtype::u8:
        case io::dtype::boolean: return append<std::uint8_t>(text, view.data(), count);
        case io::dtype::i16: return append<std::int16_t>(text, view.data(), count);
        case io::dtype::u16: return append<std::uint16_t>(text, view.data(), count);
        case io::dtype::i32: return append<std::int32_t>(text, view.data(), count);
        case io::dtype::u32: return append<std::uint32_t>(text, view.data(), count);
        case io::dtype::i64: return append<std::int64_t>(text, view.data(), count);
        case io::dtype::u64: return append<std::uint64_t>(text, view.data(), count);
    }
}

// The outputs that are no state; all of them where there is nothing else.
std::vector<std::size_t> outputs_to_write(const nn::session& of, const device& on) {
    std::vector<std::size_t> made;
    for (std::size_t i = 0; i < of.outputs().size(); ++i) {
        const auto is_its = [&](const nn::state_pair& each) { return each.output == of.outputs()[i].name; };
        if (std::ranges::none_of(of.pairs(), is_its)) made.push_back(i);
    }
    if (!made.empty()) return made;
    if (!on.shares_host_memory())
        refuse_stream("all outputs are state, which stays on the device: --device cpu:0 writes them");
    for (std::size_t i = 0; i < of.outputs().size(); ++i) made.push_back(i);
    return made;
}

}  // namespace

void run_stream(const run_options& options, const stream_options& how, nn::model network, std::istream& from,
                std::ostream& to) {
    refuse_options_of_arrays(options);
    for (const std::vector<nn::value_info>* const values : {&network.body.inputs, &network.body.outputs}) {
        for (const nn::value_info& each : *values)
            if (each.is_text) refuse_stream(in_quotes(each.name) + " is text, which --stream does not read or write");
    }
    const nn::run_limit limit(options.most_run_bytes);
    runtime machine({.cuda = !options.device.starts_with("cpu")});
    single_stream on(machine.find(options.device));
    nn::session steps(sync(nn::make_network(std::move(network)), on), {.pairs = pairs_in(how.pairs)});
    const std::vector<std::size_t> written = outputs_to_write(steps, machine.find(options.device));
    std::string line, text;
    for (std::size_t number = 1; std::getline(from, line); ++number) {
        if (!line.empty() && line.back() == '\r') line.pop_back();
        if (line.empty()) {
            steps.reset();
            continue;
        }
        const std::vector<nn::any_tensor> given = tensors_in(line, steps.inputs(), number);
        std::vector<nn::input_view> views;
        for (const nn::any_tensor& each : given) views.emplace_back(each);
        steps.step(views);
        text.clear();
        for (const std::size_t each : written) {
            if (each != written.front()) text += ';';
            append(text, steps.output(each));
        }
        to << text << '\n';
        if (!to.flush()) throw std::runtime_error("cannot write to standard output");
    }
}

}  // namespace sluice::app

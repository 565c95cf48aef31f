// SPDX-License-Identifier: Apache-2.0
// If, Loop, Scan: nodes that run inner graphs. The host decides what is run before it is submitted, so conditions and
// numbers of rounds are computed on the host.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "nn/operators/run_memory.hpp"
#include "nn/operators/slabs.hpp"
#include "nn/operators/table.hpp"

namespace sluice::nn::operators {
namespace {

const graph& inner_graph(const node_call& in, std::string_view name) {
    const graph* const found = in.graph_attribute(name);
    if (found == nullptr) in.refuse("has no graph '" + std::string(name) + "'");
    return *found;
}

// What the inner graph gives; each is a tensor.
std::vector<any_tensor> run_inner(const node_call& in, const graph& body, std::vector<any_tensor> inputs) {
    std::vector<any_tensor> made = in.environment().run_graph(body, std::move(inputs));
    for (std::size_t i = 0; i < made.size(); ++i)
        if (!made[i]) in.refuse("has an inner graph that does not give its output " + std::to_string(i));
    return made;
}

// Trailing outputs may be left out.
void give_inner(node_call& in, std::size_t i, const any_tensor& value) {
    if (i < in.output_count()) in.set_output(i, value);
}

// --- If ----------------------------------------------------------------------------------------------------------

void choose_graph(node_call& in) {
    const graph& then_branch = inner_graph(in, "then_branch");
    const graph& else_branch = inner_graph(in, "else_branch");
    for (const graph* const each : {&then_branch, &else_branch}) {
        if (each->outputs.size() < in.output_count())
            in.refuse("has " + std::to_string(in.output_count()) + " outputs, and an inner graph with " +
                      std::to_string(each->outputs.size()));
    }
    if (in.where() == place::nowhere && !in.input(0).is_on_host()) {
        // What is the same either way.
        const auto made = run_inner(in, then_branch, {}), other = run_inner(in, else_branch, {});
        for (std::size_t i = 0; i < in.output_count(); ++i) {
            if (made[i].type() != other[i].type() || made[i].shape() != other[i].shape())
                in.refuse_unsupported("gives " + to_string(made[i]) + " or " + to_string(other[i]) +
                                      ", and its condition is not known on the host");
            in.set_output(i, any_tensor::of_shape(made[i].type(), made[i].shape()));
        }
        return;
    }
    const auto made = run_inner(in, in.host_number(0) != 0 ? then_branch : else_branch, {});
    for (std::size_t i = 0; i < in.output_count(); ++i) in.set_output(i, made[i]);
}

// --- rounds ------------------------------------------------------------------------------------------------------

// What the rounds give, to be put together along an axis.
struct scan_output {
    std::vector<any_tensor> parts;

    // The parts are there until the node has run: no slot holds them.
    void add(const node_call& in, any_tensor part) {
        if (run_memory* const memory = run_memory::now(); memory != nullptr && in.where() != place::nowhere)
            memory->charge(in, part.size_bytes());
        parts.push_back(std::move(part));
    }

    void give(node_call& in, std::size_t output, const value_info& declared, std::int64_t axis, bool is_reversed) {
        if (output >= in.output_count()) return;
        if (parts.empty()) return in.make_output(output, declared.type, empty_shape(in, declared, axis)), void();
        if (is_reversed) std::ranges::reverse(parts);
        in.set_output(output, stacked(in, parts, in.axis(axis, parts[0].shape().size() + 1)));
    }

    // Without rounds only the inner graph's declaration has the shape of a part. A length that it does not say is 0, as
    // in ONNX Runtime: there are no elements anyway.
    static lengths empty_shape(const node_call& in, const value_info& declared, std::int64_t axis) {
        lengths made;
        if (!declared.shape) return {0};
        for (const dimension& each : *declared.shape) made.push_back(each.length.value_or(0));
        made.insert(made.begin() + static_cast<std::ptrdiff_t>(in.axis(axis, made.size() + 1)), 0);
        return made;
    }
};

template <typename T>
any_tensor round_number(io::dtype type, T value) {
    return any_tensor(
        constant{.type = type,
                 .shape = {},
                 .bytes = std::make_shared<const std::string>(reinterpret_cast<const char*>(&value), sizeof(value))});
}

void loop(node_call& in) {
    const graph& body = inner_graph(in, "body");
    if (in.input_count() < 2) in.refuse("has fewer than 2 inputs");
    const std::size_t carried = in.input_count() - 2;
    if (body.inputs.size() != carried + 2)
        in.refuse("has " + std::to_string(carried) + " values that rounds hand on, and an inner graph with " +
                  std::to_string(body.inputs.size()) + " inputs");
    if (body.outputs.size() < carried + 1 || in.output_count() > body.outputs.size() - 1)
        in.refuse("has " + std::to_string(in.output_count()) + " outputs, and an inner graph with " +
                  std::to_string(body.outputs.size()));
    std::optional<std::int64_t> most_rounds;
    if (in.has_input(0)) {
        const integers numbers = in.host_integers(0);
        if (numbers.size() != 1) in.refuse("has the number of rounds " + to_string(in.input(0)));
        most_rounds = numbers[0];
    }
    any_tensor condition = in.has_input(1) ? in.input(1) : round_number<std::uint8_t>(io::dtype::boolean, 1);
    const auto goes_on = [&] {
        if (condition.type() != io::dtype::boolean || condition.elements() != 1)
            in.refuse("has the condition " + to_string(condition));
        if (!condition.is_on_host()) in.refuse_unsupported("needs its condition on the host, before each round");
        return std::to_integer<int>(condition.bytes()[0]) != 0;
    };
    std::vector<any_tensor> values;
    for (std::size_t i = 0; i < carried; ++i) {
        if (!in.has_input(i + 2)) in.refuse("leaves out its input " + std::to_string(i + 2));
        values.push_back(in.input(i + 2));
    }
    std::vector<scan_output> scanned(body.outputs.size() - 1 - carried);
    for (std::int64_t round = 0; (!most_rounds || round < *most_rounds) && goes_on(); ++round) {
        std::vector<any_tensor> inputs{round_number(io::dtype::i64, round), condition};
        inputs.insert(inputs.end(), values.begin(), values.end());
        std::vector<any_tensor> made = run_inner(in, body, std::move(inputs));
        condition = made[0];
        for (std::size_t i = 0; i < carried; ++i) values[i] = made[1 + i];
        for (std::size_t i = 0; i < scanned.size(); ++i) scanned[i].add(in, made[1 + carried + i]);
    }
    for (std::size_t i = 0; i < carried; ++i) give_inner(in, i, values[i]);
    for (std::size_t i = 0; i < scanned.size(); ++i)
        scanned[i].give(in, carried + i, body.outputs[1 + carried + i], 0, false);
}

// --- Scan --------------------------------------------------------------------------------------------------------

// The checked numbers of a node: of states, of inputs and outputs that are scanned.
struct scan_node {
    scan_node(const node_call& in, std::size_t first_input) : body(inner_graph(in, "body")), first(first_input) {
        const std::int64_t count = in.integer("num_scan_inputs", -1);
        const std::size_t values = in.input_count() - std::min(first, in.input_count());
        if (count < 1 || static_cast<std::size_t>(count) > values)
            in.refuse("scans " + std::to_string(count) + " of " + std::to_string(values) + " inputs");
        scanned = static_cast<std::size_t>(count);
        states = values - scanned;
        if (body.inputs.size() != values || body.outputs.size() < states)
            in.refuse("has " + std::to_string(values) + " inputs, and an inner graph with " +
                      std::to_string(body.inputs.size()) + " inputs and " + std::to_string(body.outputs.size()) +
                      " outputs");
        made = body.outputs.size() - states;
        if (in.output_count() > body.outputs.size())
            in.refuse("has " + std::to_string(in.output_count()) + " outputs, and an inner graph with " +
                      std::to_string(body.outputs.size()));
        for (std::size_t i = first; i < in.input_count(); ++i)
            if (!in.has_input(i)) in.refuse("leaves out its input " + std::to_string(i));
    }

    // A list of that many numbers; all 0 where it is not there.
    static integers list(const node_call& in, std::string_view name, std::size_t count) {
        integers numbers = in.integer_list(name);
        if (!in.has(name)) numbers.assign(count, 0);
        if (numbers.size() != count)
            in.refuse("has " + std::to_string(numbers.size()) + " numbers in " + std::string(name) + "; it takes " +
                      std::to_string(count));
        return numbers;
    }
    static integers directions(const node_call& in, std::string_view name, std::size_t count) {
        integers numbers = list(in, name, count);
        for (const std::int64_t each : numbers)
            if (each != 0 && each != 1)
                in.refuse("has the number " + std::to_string(each) + " in " + std::string(name));
        return numbers;
    }

    // Runs the rounds: changes the states, adds to the outputs. slice gives the part of a scanned input for a round.
    template <typename Slice>
    void run(const node_call& in, std::size_t rounds, std::vector<any_tensor>& values,
             std::vector<scan_output>& outputs, const Slice& slice) const {
        for (std::size_t t = 0; t < rounds; ++t) {
            std::vector<any_tensor> inputs = values;
            for (std::size_t k = 0; k < scanned; ++k) inputs.push_back(slice(k, t));
            std::vector<any_tensor> next = run_inner(in, body, std::move(inputs));
            for (std::size_t i = 0; i < states; ++i) values[i] = next[i];
            for (std::size_t k = 0; k < made; ++k) outputs[k].add(in, next[states + k]);
        }
    }

    const graph& body;
    std::size_t first, states = 0, scanned = 0, made = 0;
};

void scan(node_call& in) {
    const scan_node of(in, 0);
    const integers axes = scan_node::list(in, "scan_input_axes", of.scanned);
    const integers directions = scan_node::directions(in, "scan_input_directions", of.scanned);
    const integers output_axes = scan_node::list(in, "scan_output_axes", of.made);
    const integers output_directions = scan_node::directions(in, "scan_output_directions", of.made);
    std::vector<any_tensor> values;
    for (std::size_t i = 0; i < of.states; ++i) values.push_back(in.input(i));
    std::vector<std::size_t> along;
    std::size_t rounds = 0;
    for (std::size_t k = 0; k < of.scanned; ++k) {
        const any_tensor& x = in.input(of.states + k);
        along.push_back(in.axis(axes[k], x.shape().size()));
        const std::size_t length = x.shape()[along[k]];
        if (k != 0 && length != rounds)
            in.refuse_shapes("scans inputs of the lengths " + std::to_string(rounds) + " and " +
                             std::to_string(length));
        rounds = length;
    }
    std::vector<scan_output> outputs(of.made);
    of.run(in, rounds, values, outputs, [&](std::size_t k, std::size_t t) {
        return slab_of(in, in.input(of.states + k), along[k], directions[k] != 0 ? rounds - 1 - t : t);
    });
    for (std::size_t i = 0; i < of.states; ++i) give_inner(in, i, values[i]);
    for (std::size_t k = 0; k < of.made; ++k)
        outputs[k].give(in, of.states + k, of.body.outputs[of.states + k], output_axes[k], output_directions[k] != 0);
}

// Scan 8: the first axis is the batch, the second one is scanned.
void scan_batches(node_call& in) {
    const scan_node of(in, 1);
    const integers directions = scan_node::directions(in, "directions", of.scanned);
    const lengths& first = in.input(of.first + of.states).shape();
    if (first.size() < 2) in.refuse_shapes("scans an input without a batch and a sequence");
    const std::size_t batch = first[0], longest = first[1];
    for (std::size_t i = of.first; i < in.input_count(); ++i) {
        const lengths& shape = in.input(i).shape();
        const bool is_scanned = i >= of.first + of.states;
        if (shape.empty() || shape[0] != batch || (is_scanned && (shape.size() < 2 || shape[1] != longest)))
            in.refuse_shapes("has the input " + to_string(in.input(i)) + " for a batch of " + std::to_string(batch) +
                             " sequences of " + std::to_string(longest));
    }
    if (batch == 0) in.refuse_unsupported("has an empty batch");
    integers rounds(batch, static_cast<std::int64_t>(longest));
    if (in.has_input(0)) {
        rounds = in.host_integers(0);
        const auto fits = [&](std::int64_t each) { return each >= 0 && each <= static_cast<std::int64_t>(longest); };
        if (rounds.size() != batch)
            in.refuse("has " + std::to_string(rounds.size()) + " sequence lengths for a batch of " +
                      std::to_string(batch));
        if (const auto wrong = std::ranges::find_if_not(rounds, fits); wrong != rounds.end())
            in.refuse_value(0,
                            "has the length " + std::to_string(*wrong) + " of sequences of " + std::to_string(longest));
    }
    std::vector<scan_output> states(of.states);
    std::vector<std::vector<scan_output>> outputs(batch, std::vector<scan_output>(of.made));
    for (std::size_t b = 0; b < batch; ++b) {
        const auto length = static_cast<std::size_t>(rounds[b]);
        std::vector<any_tensor> values, sequences;
        for (std::size_t i = 0; i < of.states; ++i) values.push_back(slab_of(in, in.input(of.first + i), 0, b));
        for (std::size_t k = 0; k < of.scanned; ++k)
            sequences.push_back(slab_of(in, in.input(of.first + of.states + k), 0, b));
        of.run(in, length, values, outputs[b], [&](std::size_t k, std::size_t t) {
            return slab_of(in, sequences[k], 0, directions[k] != 0 ? length - 1 - t : t);
        });
        for (std::size_t i = 0; i < of.states; ++i) states[i].parts.push_back(values[i]);
    }
    for (std::size_t i = 0; i < of.states; ++i) states[i].give(in, i, of.body.outputs[i], 0, false);
    for (std::size_t k = 0; k < of.made; ++k) {
        if (of.states + k >= in.output_count()) continue;
        // Where a sequence is over, the output is 0.
        any_tensor nothing;
        for (const auto& each : outputs) {
            if (nothing || each[k].parts.empty()) continue;
            std::byte* zeros = nullptr;
            nothing = any_tensor::make_on_host(each[k].parts[0].type(), each[k].parts[0].shape(), zeros);
        }
        const value_info& declared = of.body.outputs[of.states + k];
        if (!nothing) {
            // No round says what a part is, so the declaration does. Without parts a length that it leaves out is 0.
            const bool is_known = declared.shape && std::ranges::all_of(*declared.shape, [](const dimension& each) {
                                      return each.length.has_value();
                                  });
            if (!is_known && longest != 0)
                in.refuse_unsupported("runs no round, so the shape of an output is not known");
            lengths shape = scan_output::empty_shape(in, declared, 0);
            if (longest == 0) {
                shape.insert(shape.begin(), batch);
                in.make_output(of.states + k, declared.type, shape);
                continue;
            }
            std::byte* zeros = nullptr;
            nothing = any_tensor::make_on_host(declared.type, {shape.begin() + 1, shape.end()}, zeros);
        }
        scan_output all_batches;
        for (auto& each : outputs) {
            each[k].parts.resize(longest, nothing);
            all_batches.parts.push_back(stacked(in, each[k].parts, 0));
        }
        all_batches.give(in, of.states + k, of.body.outputs[of.states + k], 0, false);
    }
}

}  // namespace

std::span<const definition> control_flow() {
    static const std::vector<definition> operators = {
        {.name = "If",
         .least_inputs = 1,
         .most_inputs = 1,
         .most_outputs = any_number,
         .attributes = {"then_branch", "else_branch"},
         .run = &choose_graph,
         .host_inputs = input_bit(0)},
        // Its first two inputs may be left out.
        {.name = "Loop",
         .least_inputs = 0,
         .most_inputs = any_number,
         .most_outputs = any_number,
         .attributes = {"body"},
         .run = &loop,
         .host_inputs = input_bit(0) | input_bit(1)},
        {.name = "Scan",
         .least_inputs = 0,
         .most_inputs = any_number,
         .most_outputs = any_number,
         .attributes = {"body", "num_scan_inputs", "directions"},
         .run = &scan_batches,
         .host_inputs = input_bit(0),
         .since = 8,
         .until = 8},
        {.name = "Scan",
         .least_inputs = 1,
         .most_inputs = any_number,
         .most_outputs = any_number,
         .attributes = {"body", "num_scan_inputs", "scan_input_axes", "scan_input_directions", "scan_output_axes",
                        "scan_output_directions"},
         .run = &scan,
         .since = 9},
    };
    return operators;
}

}  // namespace sluice::nn::operators

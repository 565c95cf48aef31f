// SPDX-License-Identifier: Apache-2.0
#include "sequences.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "new_names.hpp"
#include "sluice/base/printable.hpp"
#include "tensor_reader.hpp"

namespace sluice::nn::detail {
namespace {

using numbers = std::vector<std::int64_t>;

// Values, or the places of a tensor along an axis, of which the file does not say how many there are.
struct sequence {
    std::vector<std::string> elements;
    std::string places_of;  // empty: it has `elements`
    std::int64_t axis = 0;
    bool keeps_axis = true;
};
using sequences = std::map<std::string, sequence, std::less<>>;

std::optional<numbers> integers_of(const constant& from) {
    numbers made(from.elements());
    for (std::size_t i = 0; i < made.size(); ++i) {
        if (from.type == io::dtype::i64) {
            std::memcpy(&made[i], from.bytes->data() + i * sizeof(made[i]), sizeof(made[i]));
        } else if (from.type == io::dtype::i32) {
            std::int32_t narrow = 0;
            std::memcpy(&narrow, from.bytes->data() + i * sizeof(narrow), sizeof(narrow));
            made[i] = narrow;
        } else {
            return std::nullopt;
        }
    }
    return made;
}

constant constant_of(const numbers& values, bool is_list) {
    return {.type = io::dtype::i64,
            .shape = is_list ? std::vector{values.size()} : std::vector<std::size_t>(),
            .bytes = std::make_shared<const std::string>(reinterpret_cast<const char*>(values.data()),
                                                         values.size() * sizeof(std::int64_t))};
}

class unfolding {
public:
    unfolding(const std::filesystem::path& path, std::int64_t opset, const graph& body)
        : path_(path), opset_(opset), names_(body) {}

    void unfold(graph& body, sequences known, bool is_inner) {
        std::vector<node> nodes = std::exchange(body.nodes, {});
        body_ = &body;
        for (const value_info& each : body.inputs) know(each.name, std::nullopt);
        for (const auto& [name, value] : body.constants) know(name, std::nullopt);
        for (std::size_t at = 0; at < nodes.size(); ++at) {
            label_ = label_of(nodes[at], at);
            unfold_inside(nodes[at], known);
            body_ = &body;
            unfold(std::move(nodes[at]), known);
        }
        std::vector<value_info> outputs;
        for (value_info& each : body.outputs) {
            const auto found = known.find(each.name);
            if (found == known.end()) {
                outputs.push_back(std::move(each));
                continue;
            }
            label_ = "output " + in_quotes(each.name);
            if (is_inner) refuse("is a sequence that an inner graph gives, which is not supported");
            for (std::size_t i = 0; i < elements_of(found->second).size(); ++i)
                outputs.push_back({.name = give_named(found->second.elements[i], each.name + "_" + std::to_string(i)),
                                   .type = each.type,
                                   .shape = {}});
        }
        body.outputs = std::move(outputs);
        // What the network is made for is not a caller's to replace.
        if (!is_inner) std::erase_if(body.defaults, [&](const value_info& each) { return fixed_.contains(each.name); });
    }

private:
    [[noreturn]] void refuse(std::string_view why) const { refuse_onnx(path_, label_, why); }

    // All sequences together: each node of a chain makes one of its own.
    void hold(std::size_t elements) {
        constexpr std::size_t most = std::size_t{1} << 22;
        held_ += elements;
        if (held_ > most) refuse("makes sequences of too many elements, which is not supported");
    }

    void unfold_inside(node& of, const sequences& known) {
        for (auto& [name, value] : of.attributes) {
            if (const auto* const inner = std::get_if<std::shared_ptr<const graph>>(&value)) {
                auto changed = std::make_shared<graph>(**inner);
                const std::string around = label_;
                const std::size_t known_around = hidden_.size();
                for (const auto& [outside, its] : known) hold(its.elements.size() + 1);  // it gets a copy
                unfold(*changed, known, true);
                label_ = around;
                forget(known_around);
                value = std::shared_ptr<const graph>(std::move(changed));
            }
        }
    }

    void unfold(node of, sequences& known) {
        using make = void (unfolding::*)(const node&, sequences&);
        static constexpr std::array<std::pair<std::string_view, make>, 8> makers = {{
            {"SequenceConstruct", &unfolding::construct},
            {"SequenceEmpty", &unfolding::construct},
            {"SplitToSequence", &unfolding::split},
            {"SequenceInsert", &unfolding::insert},
            {"SequenceErase", &unfolding::erase},
            {"SequenceAt", &unfolding::take},
            {"SequenceLength", &unfolding::count},
            {"ConcatFromSequence", &unfolding::concatenate},
        }};
        const auto found =
            std::ranges::find(makers, std::string_view(of.op), &std::pair<std::string_view, make>::first);
        if (of.domain.empty() && found != makers.end()) return (this->*found->second)(of, known);
        const auto is_sequence = [&](const std::string& name) { return known.contains(name); };
        if (std::ranges::any_of(of.inputs, is_sequence)) {
            if (!of.domain.empty() || of.op != "Identity") refuse("takes a sequence, which it does not support");
            hold(known.at(of.inputs[0]).elements.size());
            known[of.outputs.at(0)] = known.at(of.inputs[0]);
            return;
        }
        remember(of);
        body_->nodes.push_back(std::move(of));
    }

    struct known_numbers {
        numbers values;
        bool is_list = false;
    };
    // Numbers of Constant nodes may be places and lengths.
    void remember(const node& of) {
        std::optional<known_numbers> made;
        if (of.domain.empty() && of.op == "Constant" && of.outputs.size() == 1) {
            if (const constant* const value = of.find<constant>("value")) {
                if (const auto read = integers_of(*value)) made = {*read, !value->shape.empty()};
            } else if (const std::int64_t* const one = of.find<std::int64_t>("value_int")) {
                made = {{*one}, false};
            } else if (const numbers* const list = of.find<numbers>("value_ints")) {
                made = {*list, true};
            }
        }
        for (const std::string& each : of.outputs) know(each, made);
    }
    // What a name means from here to the end of its graph.
    void know(const std::string& name, std::optional<known_numbers> its) {
        const auto found = numbers_.find(name);
        if (found == numbers_.end()) {
            if (!its) return;
            hidden_.emplace_back(name, std::nullopt);
            numbers_.emplace(name, std::move(*its));
            return;
        }
        hidden_.emplace_back(name, std::move(found->second));
        if (its) {
            found->second = std::move(*its);
        } else {
            numbers_.erase(found);
        }
    }
    void forget(std::size_t known_around) {
        while (hidden_.size() > known_around) {
            auto& [name, its] = hidden_.back();
            if (its) {
                numbers_.insert_or_assign(name, std::move(*its));
            } else {
                numbers_.erase(name);
            }
            hidden_.pop_back();
        }
    }
    std::optional<known_numbers> numbers_in(const node& of, std::size_t input) {
        const std::string& name = of.inputs[input];
        if (const auto found = numbers_.find(name); found != numbers_.end()) return found->second;
        if (const auto found = body_->constants.find(name); found != body_->constants.end()) {
            if (!body_->defaults.empty()) fixed_.insert(name);
            if (const auto read = integers_of(found->second)) return known_numbers{*read, !found->second.shape.empty()};
        }
        return std::nullopt;
    }

    // The place in a sequence of that many elements, or where one is inserted: then the end is a place, too. Negative
    // ones count from the end.
    enum class place_is : unsigned char { taken, inserted };
    std::size_t place_of(const node& of, std::size_t input, std::size_t elements, place_is what) {
        const auto found = numbers_in(of, input);
        if (!found || found->values.size() != 1) refuse("has a place in a sequence that is not a constant");
        const auto count = static_cast<std::int64_t>(elements);
        const std::int64_t place = found->values[0];
        if (place < -count || place > count || (place == count && what == place_is::taken))
            refuse("has the place " + std::to_string(place) + " in a sequence with " + std::to_string(elements));
        return static_cast<std::size_t>(place < 0 ? place + count : place);
    }
    static bool has_input(const node& of, std::size_t input) {
        return input < of.inputs.size() && !of.inputs[input].empty();
    }
    const sequence& sequence_in(const node& of, const sequences& known) const {
        const auto found = of.inputs.empty() ? known.end() : known.find(of.inputs[0]);
        if (found == known.end()) refuse("takes a sequence that no node of this graph makes, which is not supported");
        return found->second;
    }
    const std::vector<std::string>& elements_of(const sequence& of) const {
        if (!of.places_of.empty()) refuse("takes a sequence whose length depends on a shape, which is not supported");
        return of.elements;
    }

    // --- what nodes become ---

    std::string new_name(const std::string& base) {
        std::string name;
        do name = base + " #" + std::to_string(made_++);
        while (!names_.take(name));
        return name;
    }
    node& add(std::string op, std::vector<std::string> inputs, std::vector<std::string> outputs) {
        node made;
        made.name = new_name(outputs.front());
        made.op = std::move(op);
        made.inputs = std::move(inputs);
        made.outputs = std::move(outputs);
        body_->nodes.push_back(std::move(made));
        return body_->nodes.back();
    }
    std::string add_constant(const std::string& base, const numbers& values, bool is_list) {
        std::string name = new_name(base);
        body_->constants.emplace(name, constant_of(values, is_list));
        return name;
    }
    std::string give_named(const std::string& value, std::string name) {
        add("Identity", {value}, {name});
        return name;
    }

    void construct(const node& of, sequences& known) {
        for (const std::string& each : of.inputs)
            if (known.contains(each)) refuse("takes a sequence, which it does not support");
        known[of.outputs.at(0)] = {.elements = of.inputs, .places_of = {}};
    }

    void split(const node& of, sequences& known) {
        const std::int64_t* const axis = of.find<std::int64_t>("axis");
        const std::int64_t* const keeps = of.find<std::int64_t>("keepdims");
        sequence made{.elements = {},
                      .places_of = of.inputs.at(0),
                      .axis = axis != nullptr ? *axis : 0,
                      .keeps_axis = has_input(of, 1) || keeps == nullptr || *keeps != 0};
        if (has_input(of, 1)) {
            const auto sizes = numbers_in(of, 1);
            if (!sizes) refuse("splits into lengths that are not constants, which is not supported");
            if (sizes->is_list) {
                for (std::size_t i = 0; i < sizes->values.size(); ++i)
                    made.elements.push_back(new_name(of.outputs.at(0)));
                if (made.elements.empty()) refuse("splits into nothing");
                add_split(of, made.elements, sizes->values).attributes["axis"] = made.axis;
                made.places_of.clear();
            } else if (sizes->values.at(0) != 1) {
                refuse("splits into pieces of " + std::to_string(sizes->values[0]) +
                       ", whose number depends on a shape, which is not supported");
            }
        }
        known[of.outputs.at(0)] = std::move(made);
    }

    void insert(const node& of, sequences& known) {
        sequence made = sequence_in(of, known);
        static_cast<void>(elements_of(made));
        if (of.inputs.size() < 2) refuse("has fewer than 2 inputs");
        const std::size_t end = made.elements.size();
        const std::size_t at = has_input(of, 2) ? place_of(of, 2, end, place_is::inserted) : end;
        made.elements.insert(made.elements.begin() + static_cast<std::ptrdiff_t>(at), of.inputs[1]);
        hold(made.elements.size());
        known[of.outputs.at(0)] = std::move(made);
    }

    void erase(const node& of, sequences& known) {
        sequence made = sequence_in(of, known);
        if (elements_of(made).empty()) refuse("takes an element out of a sequence without elements");
        const std::size_t end = made.elements.size();
        const std::size_t at = has_input(of, 1) ? place_of(of, 1, end, place_is::taken) : end - 1;
        made.elements.erase(made.elements.begin() + static_cast<std::ptrdiff_t>(at));
        hold(made.elements.size());
        known[of.outputs.at(0)] = std::move(made);
    }

    void take(const node& of, sequences& known) {
        const sequence& from = sequence_in(of, known);
        if (of.inputs.size() < 2) refuse("has fewer than 2 inputs");
        if (from.places_of.empty()) {
            const std::string& value = from.elements[place_of(of, 1, from.elements.size(), place_is::taken)];
            add("Identity", {value}, {of.outputs.at(0)});
            return;
        }
        // A list of one place keeps the axis. Gather refuses places that are not there.
        const std::string place = new_name(of.outputs.at(0));
        add("Reshape", {of.inputs[1], add_constant(place, from.keeps_axis ? numbers{1} : numbers{}, true)}, {place});
        add("Gather", {from.places_of, place}, {of.outputs.at(0)}).attributes["axis"] = from.axis;
    }

    void count(const node& of, sequences& known) {
        const sequence& from = sequence_in(of, known);
        const std::string& output = of.outputs.at(0);
        if (from.places_of.empty()) {
            const std::string value = add_constant(output, {static_cast<std::int64_t>(from.elements.size())}, false);
            add("Identity", {value}, {output});
            return;
        }
        const std::string shape = new_name(output);
        add("Shape", {from.places_of}, {shape});
        add("Gather", {shape, add_constant(output, {from.axis}, false)}, {output});
    }

    void concatenate(const node& of, sequences& known) {
        const sequence& from = sequence_in(of, known);
        const std::int64_t* const axis = of.find<std::int64_t>("axis");
        const std::int64_t* const is_new = of.find<std::int64_t>("new_axis");
        if (axis == nullptr) refuse("has no axis");
        const bool stacks = is_new != nullptr && *is_new != 0;
        const std::string& output = of.outputs.at(0);
        if (!from.places_of.empty()) {
            if (from.axis != *axis || stacks == from.keeps_axis)
                refuse("joins a sequence whose length depends on a shape along another axis, which is not supported");
            add("Identity", {from.places_of}, {output});
            return;
        }
        if (from.elements.empty()) refuse("joins a sequence without elements");
        std::vector<std::string> parts = from.elements;
        if (stacks) {
            const std::string axes = add_constant(output, {*axis}, true);
            for (std::string& each : parts) {
                std::string wider = new_name(output);
                add_unsqueeze(each, axes, *axis, wider);
                each = std::move(wider);
            }
        }
        add("Concat", parts, {output}).attributes["axis"] = *axis;
    }
    // Before version 13 of the operator set, lengths and axes are attributes.
    static constexpr std::int64_t first_with_inputs = 13;
    node& add_split(const node& of, const std::vector<std::string>& parts, const numbers& sizes) {
        if (opset_ >= first_with_inputs) return add("Split", {of.inputs[0], of.inputs[1]}, parts);
        node& made = add("Split", {of.inputs[0]}, parts);
        made.attributes["split"] = sizes;
        return made;
    }
    void add_unsqueeze(const std::string& value, const std::string& axes, std::int64_t axis, const std::string& to) {
        if (opset_ >= first_with_inputs) {
            add("Unsqueeze", {value, axes}, {to});
        } else {
            add("Unsqueeze", {value}, {to}).attributes["axes"] = numbers{axis};
        }
    }

    const std::filesystem::path& path_;
    const std::int64_t opset_;
    graph* body_ = nullptr;
    std::string label_;
    new_names names_;
    std::size_t made_ = 0, held_ = 0;
    std::set<std::string, std::less<>> fixed_;                   // constants that places and lengths were read from
    std::map<std::string, known_numbers, std::less<>> numbers_;  // of the names that mean some here
    std::vector<std::pair<std::string, std::optional<known_numbers>>> hidden_;  // what they meant before
};

}  // namespace

void unfold_sequences(const std::filesystem::path& path, std::int64_t opset, graph& body) {
    unfolding(path, opset, body).unfold(body, {}, false);
}

}  // namespace sluice::nn::detail

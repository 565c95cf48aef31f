// SPDX-License-Identifier: Apache-2.0
// Networks that are written node by node: nn::model_builder in C.
#include <mutex>
#include <string>

#include "c/handles.hpp"
#include "c/load_model.hpp"
#include "c/options.hpp"
#include "c/types.hpp"
#include "sluice/base/source_location.hpp"
#include "sluice/nn/model_builder.hpp"

using namespace sluice;
using namespace sluice::c;

struct sluice_builder {
    explicit sluice_builder(std::string name) : write(std::move(name), {}, source_location()) {}

    std::mutex mutex;  // guards the rest
    nn::model_builder write;
    nn::model_builder::values values;
    std::string description;
};

namespace {

constexpr source_location nowhere;  // a line of this file would say nothing to the caller

std::size_t add(sluice_builder& to, nn::model_builder::value made) {
    to.values.push_back(made);
    return to.values.size() - 1;
}

nn::model_builder::value value_at(const sluice_builder& in, std::size_t place, std::string_view function) {
    if (place == SLUICE_NO_VALUE) return {};
    if (place < in.values.size()) return in.values[place];
    refuse(function, "there is no value " + std::to_string(place) + "; there are " + std::to_string(in.values.size()));
}

nn::named_attribute attribute_of(const sluice_attribute& from, std::string_view function) {
    const std::string name = &require(from.name, function, "the name of an attribute");
    const bool is_integers = from.kind == SLUICE_INTEGERS;
    if ((is_integers || from.kind == SLUICE_NUMBERS) && from.count != 0) {
        const void* const list = is_integers ? static_cast<const void*>(from.integers) : from.numbers;
        if (list == nullptr) refuse(function, "the list of the attribute '" + name + "' is null");
        require_count(from.count, function, "numbers of the attribute '" + name + "'");
    }
    switch (from.kind) {
        case SLUICE_INTEGER: return {name, from.integer};
        case SLUICE_NUMBER: return {name, from.number};
        case SLUICE_TEXT: return {name, std::string(&require(from.text, function, "the text of an attribute"))};
        case SLUICE_INTEGERS: return {name, std::vector<std::int64_t>(from.integers, from.integers + from.count)};
        case SLUICE_NUMBERS: return {name, std::vector<float>(from.numbers, from.numbers + from.count)};
        default: refuse(function, "the attribute '" + name + "' has kind " + std::to_string(from.kind));
    }
}

}  // namespace

sluice_status sluice_builder_create(const char* name, sluice_builder** builder) {
    return guarded([&] {
        const std::string_view here = "sluice_builder_create";
        require(builder, here, "builder");
        *builder = new sluice_builder(name != nullptr ? name : "network");
    });
}

void sluice_builder_destroy(sluice_builder* builder) { delete builder; }

sluice_status sluice_builder_input(sluice_builder* builder, const char* name, const sluice_dimension* dimensions,
                                   size_t rank, sluice_type type, size_t* value) {
    return guarded([&] {
        const std::string_view here = "sluice_builder_input";
        sluice_builder& to = require(builder, here, "builder");
        const std::string called = &require(name, here, "name");
        if (rank != 0) require(dimensions, here, "dimensions");
        require_rank(rank, [&](const std::string& why) { refuse(here, "the input " + why); });
        require(value, here, "value");
        const auto of = dtype_from(type);
        if (!of) refuse(here, "type " + std::to_string(type) + " is none of sluice_type");
        std::vector<nn::length_or_name> shape;
        for (std::size_t i = 0; i < rank; ++i) {
            const sluice_dimension& each = dimensions[i];
            if (each.length != SLUICE_ANY_LENGTH) {
                shape.emplace_back(each.length);
            } else {
                shape.emplace_back(&require(each.name, here, "the name of a dimension"));
            }
        }
        const std::lock_guard lock(to.mutex);
        *value = add(to, to.write.input(called, shape, *of, nowhere));
    });
}

sluice_status sluice_builder_constant(sluice_builder* builder, const sluice_tensor* numbers, size_t* value) {
    return guarded([&] {
        const std::string_view here = "sluice_builder_constant";
        sluice_builder& to = require(builder, here, "builder");
        require(value, here, "value");
        const nn::any_tensor contents = host_copy(require(numbers, here, "numbers"), here);
        const std::lock_guard lock(to.mutex);
        *value = add(to, to.write.constant(contents, nowhere));
    });
}

sluice_status sluice_builder_node(sluice_builder* builder, const char* op, const size_t* inputs, size_t count,
                                  const sluice_attribute* attributes, size_t attribute_count, size_t* outputs,
                                  size_t output_count) {
    return guarded([&] {
        const std::string_view here = "sluice_builder_node";
        sluice_builder& to = require(builder, here, "builder");
        const std::string called = &require(op, here, "op");
        if (count != 0) require(inputs, here, "inputs");
        if (attribute_count != 0) require(attributes, here, "attributes");
        require(outputs, here, "outputs");
        require_count(count, here, "inputs");
        require_count(attribute_count, here, "attributes");
        require_count(output_count, here, "outputs");
        std::vector<nn::named_attribute> with;
        with.reserve(attribute_count);
        for (std::size_t i = 0; i < attribute_count; ++i) with.push_back(attribute_of(attributes[i], here));
        const std::lock_guard lock(to.mutex);
        nn::model_builder::values given;
        for (std::size_t i = 0; i < count; ++i) given.push_back(value_at(to, inputs[i], here));
        const auto made = to.write.node_with_outputs(output_count, called, given, with, nowhere);
        for (std::size_t i = 0; i < output_count; ++i) outputs[i] = add(to, made[i]);
    });
}

sluice_status sluice_builder_describe(sluice_builder* builder, size_t value, const char** text) {
    return guarded([&] {
        const std::string_view here = "sluice_builder_describe";
        sluice_builder& of = require(builder, here, "builder");
        require(text, here, "text");
        const std::lock_guard lock(of.mutex);
        of.description = of.write.describe(value_at(of, value, here), nowhere);
        *text = of.description.c_str();
    });
}

sluice_status sluice_builder_output(sluice_builder* builder, const char* name, size_t value) {
    return guarded([&] {
        const std::string_view here = "sluice_builder_output";
        sluice_builder& to = require(builder, here, "builder");
        const std::string called = &require(name, here, "name");
        const std::lock_guard lock(to.mutex);
        to.write.output(called, value_at(to, value, here), nowhere);
    });
}

sluice_status sluice_builder_make(sluice_builder* builder, sluice_runtime* runtime,
                                  const sluice_network_options* options, sluice_network** network) {
    return guarded([&] {
        const std::string_view here = "sluice_builder_make";
        sluice_builder& of = require(builder, here, "builder");
        const sluice_runtime& machine = require(runtime, here, "runtime");
        require(network, here, "network");
        const nn::model made = [&] {
            const std::lock_guard lock(of.mutex);
            return of.write.finish(nowhere);
        }();
        *network = load_model(machine, read_network_options(options, here), here, made);
    });
}

// SPDX-License-Identifier: Apache-2.0
#include "serve/workers/model_message.hpp"

#include <optional>

namespace sluice::serve {
namespace {

void put_count(packed_writer& to, std::size_t count) { to.put(static_cast<std::uint64_t>(count)); }

std::size_t read_size(packed_reader& from) { return static_cast<std::size_t>(from.number<std::uint64_t>()); }

void put_texts(packed_writer& to, const std::vector<std::string>& texts) {
    put_count(to, texts.size());
    for (const std::string& each : texts) to.put(std::string_view(each));
}

std::vector<std::string> read_texts(packed_reader& from) {
    std::vector<std::string> texts(from.count(sizeof(std::uint64_t)));
    for (std::string& each : texts) each = from.text();
    return texts;
}

void put_sizes(packed_writer& to, const std::vector<std::size_t>& sizes) {
    put_count(to, sizes.size());
    for (const std::size_t each : sizes) put_count(to, each);
}

std::vector<std::size_t> read_sizes(packed_reader& from) {
    std::vector<std::size_t> sizes(from.count(sizeof(std::uint64_t)));
    for (std::size_t& each : sizes) each = read_size(from);
    return sizes;
}

// Empty or not, and what there is.
template <typename T>
void put_optional(packed_writer& to, const std::optional<T>& value) {
    to.put(value.has_value());
    if (value) to.put(*value);
}

std::optional<activation> read_activation(packed_reader& from) {
    if (!from.number<bool>()) return std::nullopt;
    return from.one_of(activation::softmax);
}

void put_config(packed_writer& to, const model_config& config) {
    to.put(std::string_view(config.device));
    put_texts(to, config.devices);
    to.put(config.precision);
    put_optional(to, config.kept_bytes);
    to.put(config.resident);
    put_count(to, config.instances);
    put_optional(to, config.hidden_activation);
    put_optional(to, config.output_activation);
}

model_config read_config(packed_reader& from) {
    model_config config;
    config.device = from.text();
    config.devices = read_texts(from);
    config.precision = from.one_of(nn::precision::int8);
    if (from.number<bool>()) config.kept_bytes = read_size(from);
    config.resident = from.number<bool>();
    config.instances = read_size(from);
    config.hidden_activation = read_activation(from);
    config.output_activation = read_activation(from);
    return config;
}

void put_values(packed_writer& to, const std::vector<nn::value_info>& values) {
    put_count(to, values.size());
    for (const nn::value_info& each : values) {
        to.put(std::string_view(each.name));
        to.put(each.type);
        to.put(each.is_text);
        to.put(each.shape.has_value());
        if (!each.shape) continue;
        put_count(to, each.shape->size());
        for (const nn::dimension& length : *each.shape) {
            put_optional(to, length.length);
            to.put(std::string_view(length.name));
        }
    }
}

nn::dimension read_dimension(packed_reader& from) {
    nn::dimension made;
    if (from.number<bool>()) made.length = read_size(from);
    made.name = from.text();
    return made;
}

std::vector<nn::value_info> read_values(packed_reader& from) {
    std::vector<nn::value_info> values(from.count(sizeof(std::uint64_t)));
    for (nn::value_info& each : values) {
        each.name = from.text();
        each.type = from.one_of(io::dtype::boolean);
        each.is_text = from.number<bool>();
        if (!from.number<bool>()) continue;
        each.shape.emplace(from.count(sizeof(std::uint64_t)));
        for (nn::dimension& length : *each.shape) length = read_dimension(from);
    }
    return values;
}

void put_rows(packed_writer& to, const nn::row_independence& rows) {
    to.put(rows.is_proven);
    put_sizes(to, rows.input_axes);
    put_sizes(to, rows.output_axes);
    for (const std::string* const each : {&rows.node, &rows.op, &rows.why}) to.put(std::string_view(*each));
}

nn::row_independence read_rows(packed_reader& from) {
    nn::row_independence rows;
    rows.is_proven = from.number<bool>();
    rows.input_axes = read_sizes(from);
    rows.output_axes = read_sizes(from);
    for (std::string* const each : {&rows.node, &rows.op, &rows.why}) *each = from.text();
    return rows;
}

}  // namespace

model_description description_of(const loaded_model& from) {
    model_description made{.inputs = from.inputs(),
                           .outputs = from.outputs(),
                           .texts = {},
                           .rows = from.rows(),
                           .platform = from.platform(),
                           .device_name = from.device_name(),
                           .how = from.how(),
                           .prefers_few_sizes = from.prefers_few_sizes(),
                           .most_joined_rows = from.most_joined_rows()};
    for (std::size_t i = 0; i < from.texts().size(); ++i)
        made.texts.emplace_back(from.texts().text_of(static_cast<std::int64_t>(i)));
    return made;
}

void put(packed_writer& to, const files_as_read& files) {
    put_count(to, files.size());
    for (const auto& [path, state] : files) {
        to.put(std::string_view(path.native()));
        to.put(state.device);
        to.put(state.number);
        to.put(state.seconds);
        to.put(state.nanoseconds);
        put_count(to, state.bytes);
    }
}

files_as_read read_files(packed_reader& from) {
    files_as_read files(from.count(sizeof(std::uint64_t)));
    for (auto& [path, state] : files) {
        path = from.text();
        state.device = from.number<std::uint64_t>();
        state.number = from.number<std::uint64_t>();
        state.seconds = from.number<std::int64_t>();
        state.nanoseconds = from.number<std::int64_t>();
        state.bytes = read_size(from);
    }
    return files;
}

void put(packed_writer& to, const load_message& message) {
    to.put(std::string_view(message.which.name));
    put_count(to, message.which.version);
    to.put(std::string_view(message.which.file.native()));
    put_config(to, message.config);
    put(to, message.files);
}

load_message read_load_message(packed_reader& from) {
    load_message made;
    made.which.name = from.text();
    made.which.version = read_size(from);
    made.which.file = from.text();
    made.config = read_config(from);
    made.files = read_files(from);
    return made;
}

void put(packed_writer& to, const model_description& its) {
    put_values(to, its.inputs);
    put_values(to, its.outputs);
    put_texts(to, its.texts);
    put_rows(to, its.rows);
    for (const std::string* const each : {&its.platform, &its.device_name, &its.how}) to.put(std::string_view(*each));
    to.put(its.prefers_few_sizes);
    put_count(to, its.most_joined_rows);
}

model_description read_description(packed_reader& from) {
    model_description made;
    made.inputs = read_values(from);
    made.outputs = read_values(from);
    made.texts = read_texts(from);
    made.rows = read_rows(from);
    for (std::string* const each : {&made.platform, &made.device_name, &made.how}) *each = from.text();
    made.prefers_few_sizes = from.number<bool>();
    made.most_joined_rows = read_size(from);
    return made;
}

}  // namespace sluice::serve

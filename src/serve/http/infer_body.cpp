// SPDX-License-Identifier: Apache-2.0
#include "serve/http/infer_body.hpp"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

#include "serve/http/json_numbers.hpp"
#include "serve/request_checks.hpp"
#include "serve/text_elements.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/serve/refusal.hpp"

namespace sluice::serve {
namespace {

namespace dom = simdjson::dom;

constexpr std::size_t deepest = 32;
constexpr std::size_t first_json_bytes = 64 << 10;
constexpr std::size_t most_kept_json_bytes = 1 << 20;  // memory for longer documents is not kept
constexpr std::size_t most_kept_id_bytes = 1 << 10;    // that of a longer id is not kept

template <typename T>
T value_as(dom::element from, const std::string& where, std::string_view wanted) {
    T value;
    if (from.get(value) != simdjson::SUCCESS) refuse_request(where + " is not " + std::string(wanted));
    return value;
}

// Calls `read` for each member. Refuses a key that is there twice, and gives unknown ones to `read`, which refuses
// them.
template <typename Read>
void read_object(dom::object from, const std::string& where, const Read& read) {
    constexpr std::size_t most_keys = 32;
    std::array<std::string_view, most_keys> seen;
    std::size_t count = 0;
    for (const dom::key_value_pair each : from) {
        const auto end = seen.begin() + static_cast<std::ptrdiff_t>(count);
        if (std::find(seen.begin(), end, each.key) != end)
            refuse_request(where + " has the key " + in_quotes(each.key) + " twice");
        if (count == most_keys) refuse_request(where + " has too many keys");
        seen[count++] = each.key;
        read(each.key, each.value);
    }
}

[[noreturn]] void refuse_key(const std::string& where, std::string_view key, const char* known) {
    refuse_request(where + " has the unknown key " + in_quotes(key) + "; the keys are " + known);
}

// Reads one body.
class body_reading {
public:
    body_reading(std::string_view binary, bool has_binary, const std::vector<nn::value_info>& inputs,
                 const std::vector<nn::value_info>& outputs, const nn::text_codes& texts,
                 const shared_memory_access& shared_memory, const state_values& state, infer_body& to)
        : binary_(std::as_bytes(std::span(binary))),
          has_binary_(has_binary),
          inputs_(inputs),
          outputs_(outputs),
          texts_(texts),
          shared_memory_(shared_memory),
          state_(state),
          to_(to),
          numbers_at_(inputs.size(), is_missing) {
        to_.inputs.resize(inputs.size());
    }

    void read(dom::element document) {
        bool has_inputs = false;
        read_object(value_as<dom::object>(document, "the body", "a JSON object"), "the request",
                    [&](std::string_view key, dom::element value) {
                        has_inputs = has_inputs || key == "inputs";
                        read_member(key, value);
                    });
        if (!has_inputs) refuse_request("the request has no 'inputs'");
        finish();
    }

private:
    static constexpr std::size_t is_missing = ~std::size_t{0};
    static constexpr std::size_t is_elsewhere = is_missing - 1;  // it is not JSON

    void read_member(std::string_view key, dom::element value) {
        if (key == "id") {
            to_.id = value_as<std::string_view>(value, "'id'", "a text");
            to_.has_id = true;
        } else if (key == "model_name") {
            to_.model_name = value_as<std::string_view>(value, "'model_name'", "a text");
        } else if (key == "parameters") {
            read_parameters(value_as<dom::object>(value, "'parameters'", "an object"));
        } else if (key == "inputs") {
            for (const dom::element each : value_as<dom::array>(value, "'inputs'", "an array")) read_input(each);
        } else if (key == "outputs") {
            const auto list = value_as<dom::array>(value, "'outputs'", "an array");
            has_outputs_ = list.begin() != list.end();
            for (const dom::element each : list) read_output(each);
        } else {
            refuse_key("the request", key, "id, model_name, parameters, inputs, outputs");
        }
    }

    void read_parameters(dom::object from) {
        read_object(from, "'parameters'", [&](std::string_view key, dom::element value) {
            if (key == "binary_data_output") {
                all_binary_ = value_as<bool>(value, "'binary_data_output'", "true or false");
            } else if (key == "timeout") {
                const auto time = value_as<std::uint64_t>(value, "'timeout'", "a number of microseconds");
                to_.timeout = require_timeout(time);
            } else if (key == "priority") {
                to_.priority = value_as<std::uint64_t>(value, "'priority'", "an integer of at least 0");
            } else if (key == "sequence_id") {
                sequence_.set_id(sequence_id_of(value));
            } else if (key == "sequence_start") {
                sequence_.begins = !says_nothing(value) && value_as<bool>(value, "'sequence_start'", "true or false");
            } else if (key == "sequence_end") {
                sequence_.ends = !says_nothing(value) && value_as<bool>(value, "'sequence_end'", "true or false");
            } else if (key == "sequence_step") {
                sequence_.step = value_as<std::uint64_t>(value, "'sequence_step'", "an integer of at least 0");
            } else if (key == "triton_enable_empty_final_response") {
                value_as<bool>(value, "'triton_enable_empty_final_response'", "true or false");  // there is one answer
            } else if (!may_pass_over(key, says_nothing(value))) {
                refuse_parameter(
                    "the request", key,
                    "binary_data_output, priority, sequence_end, sequence_id, sequence_start, sequence_step, "
                    "timeout");
            }
        });
    }

    static sequence_id sequence_id_of(dom::element value) {
        std::string_view text;
        if (!value.get(text)) return {.text = std::string(text)};
        if (value.is_null()) return {};
        return {.text = {},
                .number = value_as<std::uint64_t>(value, "'sequence_id'", "an integer of at least 0 or a text")};
    }

    // 0, false, "" or null: what clients send for a parameter that is not used.
    static bool says_nothing(dom::element value) {
        bool flag = true;
        std::uint64_t number = 1;
        std::string_view text = "text";
        if (!value.get(flag)) return !flag;
        if (!value.get(number)) return number == 0;
        if (!value.get(text)) return text.empty();
        return value.is_null();
    }

    struct input_fields {
        std::optional<std::string_view> name, datatype;
        std::optional<dom::array> shape, data;
        std::optional<std::uint64_t> binary_size;
        region_parameters region;
    };

    // Whether the parameter is one of shared memory.
    static bool read_region_parameter(std::string_view key, dom::element value, region_parameters& to) {
        if (key == "shared_memory_region")
            to.region = value_as<std::string_view>(value, "'shared_memory_region'", "a text");
        else if (key == "shared_memory_byte_size")
            to.bytes = value_as<std::uint64_t>(value, "'shared_memory_byte_size'", "an integer of at least 0");
        else if (key == "shared_memory_offset")
            to.offset = value_as<std::uint64_t>(value, "'shared_memory_offset'", "an integer of at least 0");
        else
            return false;
        return true;
    }

    void read_input(dom::element from) {
        input_fields found;
        const auto object = value_as<dom::object>(from, "an element of 'inputs'", "an object");
        read_object(object, "an input", [&](std::string_view key, dom::element value) {
            if (key == "name")
                found.name = value_as<std::string_view>(value, "an input's 'name'", "a text");
            else if (key == "datatype")
                found.datatype = value_as<std::string_view>(value, "an input's 'datatype'", "a text");
            else if (key == "shape")
                found.shape = value_as<dom::array>(value, "an input's 'shape'", "an array");
            else if (key == "data")
                found.data = value_as<dom::array>(value, "an input's 'data'", "an array");
            else if (key == "parameters")
                read_input_parameters(value, found);
            else
                refuse_key("an input", key, "name, shape, datatype, parameters, data");
        });
        take_input(found);
    }

    void read_input_parameters(dom::element from, input_fields& to) {
        read_object(value_as<dom::object>(from, "an input's 'parameters'", "an object"), "an input's 'parameters'",
                    [&](std::string_view key, dom::element value) {
                        if (read_region_parameter(key, value, to.region)) return;
                        if (key == "binary_data_size") {
                            to.binary_size = value_as<std::uint64_t>(value, "'binary_data_size'", "a number of bytes");
                        } else if (!may_pass_over(key, says_nothing(value))) {
                            refuse_parameter("an input", key,
                                             "binary_data_size, " + std::string(shared_memory_parameters));
                        }
                    });
    }

    void take_input(const input_fields& found) {
        if (!found.name) refuse_request("an input has no 'name'");
        const std::size_t index = require_name(inputs_, *found.name, "input");
        const std::string where = tensor_words("input", *found.name);
        if (numbers_at_[index] != is_missing) refuse_twice(where);
        if (!found.datatype) refuse_request(where + " has no 'datatype'");
        if (!found.shape) refuse_request(where + " has no 'shape'");
        tensor_view& to = to_.inputs[index];
        to.type = require_datatype_of(inputs_[index], *found.datatype, where);
        to.shape = read_shape(*found.shape, where);
        if (!found.region.is_empty()) {
            if (found.data || found.binary_size)
                refuse_request(where + " is in shared memory, but has 'data' or 'binary_data_size' too");
            return take_elements(index, to_.shared->read(shared_memory_, found.region, where), where);
        }
        if (found.data.has_value() == found.binary_size.has_value()) {
            refuse_request(where + (found.data ? " has both 'data' and 'binary_data_size'"
                                               : " has neither 'data' nor the parameter 'binary_data_size'"));
        }
        if (found.binary_size) return take_elements(index, take_binary(*found.binary_size, where), where);
        to_.numbers.add((to_.numbers.size() + 15) / 16 * 16 - to_.numbers.size());
        numbers_at_[index] = to_.numbers.size();
        if (inputs_[index].is_text) return append_codes(to_.numbers, to.shape, *found.data, texts_, where);
        append_numbers(to_.numbers, to.type, to.shape, *found.data, where);
    }

    // Elements that are not JSON.
    void take_elements(std::size_t input, std::span<const std::byte> elements, const std::string& where) {
        tensor_view& to = to_.inputs[input];
        numbers_at_[input] = is_elsewhere;
        to.bytes = elements;
        if (!inputs_[input].is_text) return;
        // Each text takes 4 bytes at least, so what comes bounds what is made.
        const std::size_t bytes = bytes_of_codes(to.shape, where);
        if (bytes / 2 > elements.size())
            refuse_request(where + ": the shape " + to_string(to.shape) + " has more elements than the data");
        const std::span<std::byte> codes = to_.codes->add(shared_memory_.budget, bytes);
        write_codes(codes, elements, texts_, to.shape, where);
        to.bytes = codes;
    }

    tensor_shape read_shape(dom::array from, const std::string& where) {
        tensor_shape shape;
        for (const dom::element each : from) {
            append_length(shape,
                          value_as<std::uint64_t>(each, where + ": a length of the shape", "an integer of at least 0"),
                          where);
        }
        return shape;
    }

    std::span<const std::byte> take_binary(std::uint64_t size, const std::string& where) {
        if (!has_binary_) refuse_request(where + " is binary, but the request has no Inference-Header-Content-Length");
        if (size > binary_.size() - binary_taken_) {
            refuse_request(where + " has " + std::to_string(size) + " bytes of binary data; the body has " +
                           std::to_string(binary_.size() - binary_taken_) + " left");
        }
        const auto taken = binary_.subspan(binary_taken_, size);
        binary_taken_ += size;
        return taken;
    }

    void read_output(dom::element from) {
        std::optional<std::string_view> name;
        output_parameters parameters;
        const auto object = value_as<dom::object>(from, "an element of 'outputs'", "an object");
        read_object(object, "an output", [&](std::string_view key, dom::element value) {
            if (key == "name")
                name = value_as<std::string_view>(value, "an output's 'name'", "a text");
            else if (key == "parameters")
                parameters = read_output_parameters(value);
            else
                refuse_key("an output", key, "name, parameters");
        });
        if (!name) refuse_request("an output has no 'name'");
        const std::size_t index = require_name(outputs_, *name, "output");
        if (std::ranges::find(to_.outputs, index, &chosen_output::index) != to_.outputs.end())
            refuse_twice(tensor_words("output", *name));
        const bool is_shared = !parameters.region.is_empty();
        to_.outputs.push_back({index, !is_shared && parameters.binary.value_or(false), {}});
        if (is_shared) {  // clients send binary_data too; it has no effect
            to_.outputs.back().place =
                find_output_place(shared_memory_, parameters.region, tensor_words("output", *name));
        }
        has_choice_.push_back(is_shared || parameters.binary.has_value());
    }

    struct output_parameters {
        std::optional<bool> binary;
        region_parameters region;
    };

    output_parameters read_output_parameters(dom::element from) {
        output_parameters found;
        read_object(value_as<dom::object>(from, "an output's 'parameters'", "an object"), "an output's 'parameters'",
                    [&](std::string_view key, dom::element value) {
                        if (read_region_parameter(key, value, found.region)) return;
                        if (key == "binary_data") {
                            found.binary = value_as<bool>(value, "'binary_data'", "true or false");
                        } else if (!may_pass_over(key, says_nothing(value))) {
                            refuse_parameter("an output", key, "binary_data, " + std::string(shared_memory_parameters));
                        }
                    });
        return found;
    }

    // What is known only when all members have been read.
    void finish() {
        to_.sequence = sequence_.read(state_);
        for (std::size_t i = 0; i < inputs_.size(); ++i) {
            if (to_.sequence && state_.input_states[i]) {
                require_no_state(numbers_at_[i] != is_missing, inputs_[i].name);
                continue;
            }
            if (numbers_at_[i] == is_missing) refuse_missing_input(inputs_[i].name);
            if (numbers_at_[i] == is_elsewhere) continue;
            tensor_view& to = to_.inputs[i];
            to.bytes = to_.numbers.bytes().subspan(numbers_at_[i], *io::byte_count(to.shape.lengths(), to.type));
        }
        if (binary_taken_ != binary_.size()) {
            refuse_request("the body has " + std::to_string(binary_.size()) +
                           " bytes of binary data; the inputs take " + std::to_string(binary_taken_));
        }
        if (!has_outputs_)
            for (std::size_t i = 0; i < outputs_.size(); ++i)
                if (!to_.sequence || !state_.output_states[i]) to_.outputs.push_back({i, all_binary_, {}});
        for (std::size_t i = 0; i < has_choice_.size(); ++i)
            if (!has_choice_[i]) to_.outputs[i].is_binary = all_binary_;
    }

    std::span<const std::byte> binary_;
    bool has_binary_;
    std::size_t binary_taken_ = 0;
    const std::vector<nn::value_info>& inputs_;
    const std::vector<nn::value_info>& outputs_;
    const nn::text_codes& texts_;
    const shared_memory_access& shared_memory_;
    const state_values& state_;
    infer_body& to_;
    sequence_parameters sequence_;
    std::vector<std::size_t> numbers_at_;  // of each input: in to_.numbers
    std::vector<bool> has_choice_;         // of each output: it says whether it is binary
    bool has_outputs_ = false;
    bool all_binary_ = false;
};

}  // namespace

void infer_body::clear() noexcept {
    id.clear();
    if (id.capacity() > most_kept_id_bytes) std::string().swap(id);
    has_id = false;
    model_name.reset();
    inputs.clear();
    outputs.clear();
    timeout.reset();
    priority = 0;
    sequence.reset();
    numbers.clear();
    shared->clear();
    codes->clear();
}

struct infer_body_reader::parser {
    dom::parser json;

    parser() { require_memory(json.allocate(first_json_bytes, deepest)); }

    static void require_memory(simdjson::error_code failure) {
        if (failure != simdjson::SUCCESS) throw std::bad_alloc();
    }
};

// Of a document of this many bytes, also of one that is refused.
class infer_body_reader::parser_end {
public:
    parser_end(std::unique_ptr<parser>& its, std::size_t bytes) noexcept : its_(its), bytes_(bytes) {}
    parser_end(const parser_end&) = delete;  // one read has one end
    parser_end& operator=(const parser_end&) = delete;
    ~parser_end() {
        if (bytes_ > most_kept_json_bytes) its_.reset();
    }

private:
    std::unique_ptr<parser>& its_;
    const std::size_t bytes_;
};

infer_body_reader::infer_body_reader(std::size_t json_bytes)
    : parser_(std::make_unique<parser>()), json_bytes_(json_bytes) {}
infer_body_reader::~infer_body_reader() = default;

std::size_t infer_body_reader::kept_json_bytes() const noexcept { return parser_ ? parser_->json.capacity() : 0; }

void infer_body_reader::read(std::string& body, std::optional<std::size_t> json_bytes,
                             const std::vector<nn::value_info>& inputs, const std::vector<nn::value_info>& outputs,
                             const nn::text_codes& texts, infer_body& to, const shared_memory_access& memory,
                             const state_values& state) {
    to.clear();
    to.numbers.begin(memory.budget);
    const std::size_t length = json_bytes.value_or(body.size());
    if (length > body.size()) {
        refuse_request("Inference-Header-Content-Length is " + std::to_string(length) + "; the body has " +
                       std::to_string(body.size()) + " bytes");
    }
    if (json_bytes && length == 0) {
        refuse_request(
            "Inference-Header-Content-Length is 0: requests of raw binary data without JSON are not supported; the "
            "body is JSON, and after it may be binary data of the inputs that it names");
    }
    if (length == 0) refuse_request("the body has no JSON");
    if (length > json_bytes_) {
        refuse_request("the JSON of the body has " + std::to_string(length) + " bytes, more than " +
                       std::to_string(json_bytes_) + "; binary tensor data may be longer");
    }
    body.reserve(body.size() + simdjson::SIMDJSON_PADDING);
    if (!parser_) parser_ = std::make_unique<parser>();
    const parser_end end(parser_, length);
    dom::element document;
    const auto failure = parser_->json.parse(body.data(), length, false).get(document);
    if (failure == simdjson::MEMALLOC) throw std::bad_alloc();
    if (failure != simdjson::SUCCESS)
        refuse_request("the body is no JSON: " + std::string(simdjson::error_message(failure)));
    const std::string_view binary = std::string_view(body).substr(length);
    body_reading(binary, json_bytes.has_value(), inputs, outputs, texts, memory, state, to).read(document);
}

}  // namespace sluice::serve

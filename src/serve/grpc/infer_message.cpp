// SPDX-License-Identifier: Apache-2.0
#include "serve/grpc/infer_message.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "serve/grpc/infer_parameters.hpp"
#include "serve/grpc/tensor_contents.hpp"
#include "serve/grpc/wire_reader.hpp"
#include "serve/request_checks.hpp"
#include "serve/text_elements.hpp"
#include "sluice/serve/refusal.hpp"

namespace sluice::serve {
namespace {

// The numbers of the fields in inference.proto.
namespace request_field {
constexpr std::uint32_t model_name = 1, model_version = 2, id = 3, parameters = 4, inputs = 5, outputs = 6,
                        raw_input_contents = 7;
}
namespace tensor_field {
constexpr std::uint32_t name = 1, datatype = 2, shape = 3, parameters = 4, contents = 5;
}
namespace output_field {
constexpr std::uint32_t name = 1, parameters = 2;
}

// One input, as its message has it.
struct input_tensor {
    explicit input_tensor(wire_reader from) : contents(from) {}

    std::string_view name, datatype;
    tensor_shape shape;
    bool is_negative = false;     // one of its lengths
    bool is_beyond_rank = false;  // it has more lengths than a shape may
    region_fields region;
    contents_reader contents;
};

void add_length(input_tensor& to, std::uint64_t length) {
    to.is_negative = to.is_negative || length > std::uint64_t{INT64_MAX};
    if (to.shape.rank() == tensor_shape::most_dimensions)
        to.is_beyond_rank = true;
    else
        to.shape.push_back(length);
}

input_tensor read_input_tensor(wire_reader from) {
    input_tensor to(from);
    for (wire_reader::field field; from.next(field);) {
        if (field.is(tensor_field::name, wire_type::bytes)) {
            to.name = from.read_text();
        } else if (field.is(tensor_field::datatype, wire_type::bytes)) {
            to.datatype = from.read_text();
        } else if (field.is(tensor_field::shape, wire_type::varint)) {
            add_length(to, from.read_varint());
        } else if (field.is(tensor_field::shape, wire_type::bytes)) {
            for (wire_reader lengths(from.read_bytes()); lengths.left() != 0;) add_length(to, lengths.read_varint());
        } else if (field.is(tensor_field::parameters, wire_type::bytes)) {
            to.region.add(read_parameter(from.read_message()));
        } else if (field.is(tensor_field::contents, wire_type::bytes)) {
            to.contents.add(from.read_message());
        } else {
            from.skip(field);
        }
    }
    return to;
}

// The entries of raw_input_contents, one after the other.
class raw_contents {
public:
    explicit raw_contents(std::span<const std::byte> message) : from_(message) {}

    // Needs one that was not given yet.
    std::span<const std::byte> next() {
        wire_reader::field field;
        while (from_.next(field)) {
            if (field.is(request_field::raw_input_contents, wire_type::bytes)) return from_.read_bytes();
            from_.skip(field);
        }
        return {};
    }

private:
    wire_reader from_;
};

class message_reading {
public:
    message_reading(std::span<const std::byte> from, const infer_head& head, const std::vector<nn::value_info>& inputs,
                    const std::vector<nn::value_info>& outputs, const nn::text_codes& texts,
                    const shared_memory_access& shared_memory, bool is_streamed, const state_values& state)
        : from_(from),
          head_(head),
          inputs_(inputs),
          outputs_(outputs),
          texts_(texts),
          shared_memory_(shared_memory),
          is_streamed_(is_streamed),
          state_(state),
          raw_(from),
          is_there_(inputs.size()) {
        to_.inputs.resize(inputs.size());
    }

    infer_message read() {
        wire_reader message(from_);
        for (wire_reader::field field; message.next(field);) {
            if (field.is(request_field::parameters, wire_type::bytes))
                read_parameter_of_request(message.read_message());
            else if (field.is(request_field::inputs, wire_type::bytes))
                read_input(read_input_tensor(message.read_message()));
            else if (field.is(request_field::outputs, wire_type::bytes))
                read_output(message.read_message());
            else
                message.skip(field);
        }
        apply_parameters();
        if (raw_taken_ != head_.raw_contents) {
            refuse_request("the request has " + std::to_string(head_.raw_contents) + " raw_input_contents, but " +
                           std::to_string(raw_taken_) + " inputs that are not in shared memory");
        }
        for (std::size_t i = 0; i < inputs_.size(); ++i) {
            if (to_.sequence && state_.input_states[i])
                require_no_state(is_there_[i], inputs_[i].name);
            else if (!is_there_[i])
                refuse_missing_input(inputs_[i].name);
        }
        if (to_.outputs.empty()) {
            to_.outputs.reserve(outputs_.size());
            for (std::size_t i = 0; i < outputs_.size(); ++i)
                if (!to_.sequence || !state_.output_states[i]) to_.outputs.push_back({i, {}});
        }
        return std::move(to_);
    }

private:
    void read_parameter_of_request(wire_reader from) {
        const named_parameter its = read_parameter(from);
        if (its.key == "timeout")
            timeout_ = its;
        else if (its.key == "priority")
            priority_ = its;
        else if (its.key == "triton_enable_empty_final_response")
            says_final_ = its;
        else if (its.key == "sequence_id")
            sequence_id_ = its;
        else if (its.key == "sequence_start")
            begins_ = its;
        else if (its.key == "sequence_end")
            ends_ = its;
        else if (its.key == "sequence_step")
            step_ = its;
        else if (!may_pass_over(its.key, its.says_nothing()))
            refuse_parameter("the request", its.key,
                             "priority, sequence_end, sequence_id, sequence_start, sequence_step, timeout");
    }

    // Of a key that is there twice the last value holds, as protobuf has it; so they are looked at when all are read.
    void apply_parameters() {
        if (timeout_) to_.timeout = require_timeout(require_count(*timeout_));
        if (priority_) to_.priority = require_count(*priority_);
        // The end of a single call says it anyway.
        if (says_final_) to_.says_final = require_flag(*says_final_) && is_streamed_;
        sequence_parameters sequence;
        if (sequence_id_ && !sequence_id_->says_nothing()) sequence.set_id(sequence_id_of(*sequence_id_));
        if (begins_ && !begins_->says_nothing()) sequence.begins = require_flag(*begins_);
        if (ends_ && !ends_->says_nothing()) sequence.ends = require_flag(*ends_);
        if (step_) sequence.step = require_count(*step_);
        to_.sequence = sequence.read(state_);
    }

    static sequence_id sequence_id_of(const named_parameter& from) {
        if (from.is == named_parameter::kind::text) return {.text = std::string(from.text)};
        return {.text = {}, .number = require_count(from)};
    }

    void read_input(const input_tensor& from) {
        const std::size_t index = require_name(inputs_, from.name, "input");
        if (is_there_[index]) refuse_twice(tensor_words("input", from.name));
        is_there_[index] = true;
        tensor_view& to = to_.inputs[index];
        const region_parameters region = from.region.read([&] { return tensor_words("input", from.name); });
        const bool is_text = inputs_[index].is_text;
        const auto type = is_text ? std::nullopt : dtype_of_datatype(from.datatype);
        to.type = type ? *type : require_datatype_of(inputs_[index], from.datatype, tensor_words("input", from.name));
        if (from.is_negative || from.is_beyond_rank) refuse_shape(from);
        to.shape = from.shape;
        to.bytes = is_text ? codes_of(from, region) : bytes_of(from, to.type, region);
    }

    std::span<const std::byte> codes_of(const input_tensor& from, const region_parameters& region) {
        const std::string where = tensor_words("input", from.name);
        if (!to_.decoded) to_.decoded = std::make_unique<charged_memory>();
        const std::size_t bytes = bytes_of_codes(from.shape, where);
        const auto room = [&](std::size_t elements_at_least) {
            if (bytes / sizeof(std::int64_t) > elements_at_least)
                refuse_request(where + ": the shape " + to_string(from.shape) + " has more elements than the data");
            return to_.decoded->add(shared_memory_.budget, bytes);
        };
        if (region.is_empty() && head_.raw_contents == 0) {
            const std::span<std::byte> made = room(from.contents.texts());
            from.contents.write_codes(made, texts_, from.shape, where);
            return made;
        }
        const std::span<const std::byte> elements = bytes_of(from, io::dtype::u8, region);
        const std::span<std::byte> made = room(elements.size() / sizeof(std::uint32_t));
        write_codes(made, elements, texts_, from.shape, where);
        return made;
    }

    [[noreturn]] static void refuse_shape(const input_tensor& from) {
        const std::string where = tensor_words("input", from.name);
        if (from.is_negative) refuse_request(where + ": a length of the shape is not an integer of at least 0");
        refuse_request(where + " has more than " + std::to_string(tensor_shape::most_dimensions) + " dimensions");
    }

    std::span<const std::byte> bytes_of(const input_tensor& from, io::dtype type, const region_parameters& region) {
        const auto where = [&] { return tensor_words("input", from.name); };
        if (!region.is_empty()) {
            if (!from.contents.is_empty())
                refuse_request(where() + " is in shared memory, but has " + from.contents.filled_fields() + " too");
            if (!to_.shared) to_.shared = std::make_unique<shared_tensors>();
            return to_.shared->read(shared_memory_, region, where());
        }
        if (head_.raw_contents == 0) {
            if (!to_.decoded) to_.decoded = std::make_unique<charged_memory>();
            return from.contents.read(type, *to_.decoded, shared_memory_.budget, where);
        }
        if (!from.contents.is_empty())
            refuse_request(where() + " has both " + from.contents.filled_fields() + " and raw_input_contents");
        if (raw_taken_ == head_.raw_contents) {
            refuse_request(where() + " has no data: there are " + std::to_string(raw_taken_) +
                           " raw_input_contents, fewer than inputs that are not in shared memory");
        }
        ++raw_taken_;
        return raw_.next();
    }

    void read_output(wire_reader from) {
        std::string_view name;
        region_fields fields;
        for (wire_reader::field field; from.next(field);) {
            if (field.is(output_field::name, wire_type::bytes))
                name = from.read_text();
            else if (field.is(output_field::parameters, wire_type::bytes))
                fields.add(read_parameter(from.read_message()));
            else
                from.skip(field);
        }
        const std::size_t index = require_name(outputs_, name, "output");
        const auto where = [&] { return tensor_words("output", name); };
        if (std::ranges::find(to_.outputs, index, &infer_message::chosen_output::index) != to_.outputs.end())
            refuse_twice(where());
        const region_parameters region = fields.read(where);
        to_.outputs.push_back({index, {}});
        if (!region.is_empty()) to_.outputs.back().place = find_output_place(shared_memory_, region, where());
    }

    const std::span<const std::byte> from_;
    const infer_head& head_;
    const std::vector<nn::value_info>& inputs_;
    const std::vector<nn::value_info>& outputs_;
    const nn::text_codes& texts_;
    const shared_memory_access& shared_memory_;
    const bool is_streamed_;
    const state_values& state_;
    raw_contents raw_;
    std::size_t raw_taken_ = 0;
    infer_message to_;
    std::vector<bool> is_there_;
    std::optional<named_parameter> timeout_, priority_, says_final_, sequence_id_, begins_, ends_, step_;
};

}  // namespace

infer_head read_infer_head(std::span<const std::byte> from) {
    infer_head head;
    wire_reader message(from);
    for (wire_reader::field field; message.next(field);) {
        if (field.type != wire_type::bytes) {
            message.skip(field);
            continue;
        }
        switch (field.number) {
            case request_field::model_name: head.model_name = message.read_text(); break;
            case request_field::model_version: head.model_version = message.read_text(); break;
            case request_field::id: head.id = message.read_text(); break;
            case request_field::raw_input_contents: ++head.raw_contents; [[fallthrough]];
            default: message.skip(field);
        }
    }
    return head;
}

infer_message read_infer_message(std::span<const std::byte> from, const infer_head& head,
                                 const std::vector<nn::value_info>& inputs, const std::vector<nn::value_info>& outputs,
                                 const nn::text_codes& texts, const shared_memory_access& shared_memory,
                                 bool is_streamed, const state_values& state) {
    return message_reading(from, head, inputs, outputs, texts, shared_memory, is_streamed, state).read();
}

}  // namespace sluice::serve

// SPDX-License-Identifier: Apache-2.0
#include "serve/grpc/infer_message.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "serve/request_checks.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::serve {
namespace {

using input_tensor = inference::ModelInferRequest::InferInputTensor;
using contents = inference::InferTensorContents;

static_assert(sizeof(bool) == 1);

// Which fields of the contents have elements.
std::string filled_fields(const contents& from) {
    std::string all;
    const auto add = [&all](const char* name, int size) {
        if (size != 0) all += (all.empty() ? "" : ", ") + std::string(name);
    };
    add("bool_contents", from.bool_contents_size());
    add("int_contents", from.int_contents_size());
    add("int64_contents", from.int64_contents_size());
    add("uint_contents", from.uint_contents_size());
    add("uint64_contents", from.uint64_contents_size());
    add("fp32_contents", from.fp32_contents_size());
    add("fp64_contents", from.fp64_contents_size());
    add("bytes_contents", from.bytes_contents_size());
    return all;
}

template <typename T>
std::span<const std::byte> bytes_of(const google::protobuf::RepeatedField<T>& from) {
    return std::as_bytes(std::span(from.data(), static_cast<std::size_t>(from.size())));
}

std::uint64_t require_count(const inference::InferParameter& from, const std::string& where) {
    if (from.parameter_choice_case() == inference::InferParameter::kUint64Param) return from.uint64_param();
    if (from.parameter_choice_case() != inference::InferParameter::kInt64Param || from.int64_param() < 0)
        refuse_request(where + " is not an integer of at least 0");
    return static_cast<std::uint64_t>(from.int64_param());
}

bool require_flag(const inference::InferParameter& from, const std::string& where) {
    if (from.parameter_choice_case() != inference::InferParameter::kBoolParam)
        refuse_request(where + " is not true or false");
    return from.bool_param();
}

class message_reading {
public:
    message_reading(const inference::ModelInferRequest& from, const std::vector<nn::value_info>& inputs,
                    const std::vector<nn::value_info>& outputs, const shared_memory_access& shared_memory,
                    bool is_streamed)
        : from_(from),
          inputs_(inputs),
          outputs_(outputs),
          shared_memory_(shared_memory),
          is_streamed_(is_streamed),
          is_there_(inputs.size()) {
        to_.inputs.resize(inputs.size());
    }

    infer_message read() {
        read_parameters();
        for (const input_tensor& each : from_.inputs()) read_input(each);
        if (raw_taken_ != from_.raw_input_contents_size()) {
            refuse_request("the request has " + std::to_string(from_.raw_input_contents_size()) +
                           " raw_input_contents, but " + std::to_string(raw_taken_) +
                           " inputs that are not in shared memory");
        }
        for (std::size_t i = 0; i < inputs_.size(); ++i)
            if (!is_there_[i]) refuse_missing_input(inputs_[i].name);
        for (const auto& each : from_.outputs()) read_output(each);
        if (from_.outputs().empty())
            for (std::size_t i = 0; i < outputs_.size(); ++i) to_.outputs.push_back({i, {}});
        return std::move(to_);
    }

private:
    void read_parameters() {
        for (const auto& [key, value] : from_.parameters()) {
            if (key == "timeout")
                to_.timeout = require_timeout(require_count(value, "'timeout'"));
            else if (key == "priority")
                to_.priority = require_count(value, "'priority'");
            else if (key == "triton_enable_empty_final_response")  // the end of a single call says it anyway
                to_.says_final = require_flag(value, "'triton_enable_empty_final_response'") && is_streamed_;
            else
                refuse_parameter("the request", key, "priority, timeout");
        }
    }

    template <typename Parameters>
    static region_parameters read_region_parameters(const Parameters& from, const std::string& where) {
        region_parameters found;
        for (const auto& [key, value] : from) {
            if (key == "shared_memory_region") {
                if (value.parameter_choice_case() != inference::InferParameter::kStringParam)
                    refuse_request("'shared_memory_region' is not a text");
                found.region = value.string_param();
            } else if (key == "shared_memory_byte_size") {
                found.bytes = require_count(value, "'shared_memory_byte_size'");
            } else if (key == "shared_memory_offset") {
                found.offset = require_count(value, "'shared_memory_offset'");
            } else {
                refuse_parameter(where, key, shared_memory_parameters);
            }
        }
        return found;
    }

    void read_input(const input_tensor& from) {
        const std::string where = tensor_words("input", from.name());
        const std::size_t index = require_name(inputs_, from.name(), "input");
        if (is_there_[index]) refuse_twice(where);
        is_there_[index] = true;
        const region_parameters region = read_region_parameters(from.parameters(), where);
        tensor_view& to = to_.inputs[index];
        to.type = require_datatype(from.datatype(), where);
        for (const std::int64_t each : from.shape()) {
            if (each < 0) refuse_request(where + ": a length of the shape is not an integer of at least 0");
            append_length(to.shape, static_cast<std::uint64_t>(each), where);
        }
        const std::string filled = filled_fields(from.contents());
        if (!region.is_empty()) {
            if (!filled.empty()) refuse_request(where + " is in shared memory, but has " + filled + " too");
            to.bytes = to_.shared->read(shared_memory_, region, where);
            return;
        }
        if (from_.raw_input_contents_size() == 0) {
            to.bytes = read_contents(from.contents(), to.type, filled, where);
            return;
        }
        if (!filled.empty()) refuse_request(where + " has both " + filled + " and raw_input_contents");
        if (raw_taken_ == from_.raw_input_contents_size()) {
            refuse_request(where + " has no data: there are " + std::to_string(raw_taken_) +
                           " raw_input_contents, fewer than inputs that are not in shared memory");
        }
        to.bytes = std::as_bytes(std::span(from_.raw_input_contents(raw_taken_++)));
    }

    std::span<const std::byte> read_contents(const contents& from, io::dtype type, const std::string& filled,
                                             const std::string& where) {
        const char* field = nullptr;
        std::span<const std::byte> bytes;
        const auto take = [&](const char* name, const auto& elements) {
            field = name;
            bytes = bytes_of(elements);
        };
        switch (type) {
            case io::dtype::boolean: take("bool_contents", from.bool_contents()); break;
            case io::dtype::i8:
            case io::dtype::i16:
            case io::dtype::i32: take("int_contents", from.int_contents()); break;
            case io::dtype::i64: take("int64_contents", from.int64_contents()); break;
            case io::dtype::u8:
            case io::dtype::u16:
            case io::dtype::u32: take("uint_contents", from.uint_contents()); break;
            case io::dtype::u64: take("uint64_contents", from.uint64_contents()); break;
            case io::dtype::f32: take("fp32_contents", from.fp32_contents()); break;
            case io::dtype::f64: take("fp64_contents", from.fp64_contents()); break;
            case io::dtype::f16:
            case io::dtype::bf16:
                refuse_request(where + ": the datatype " + std::string(datatype_of(type)) +
                               " has no field in the contents; send it in raw_input_contents");
        }
        if (!filled.empty() && filled != field) {
            refuse_request(where + " has " + filled + "; the datatype " + std::string(datatype_of(type)) + " needs " +
                           field + ", or raw_input_contents");
        }
        switch (type) {
            case io::dtype::i8: return narrowed<std::int8_t>(from.int_contents(), where);
            case io::dtype::i16: return narrowed<std::int16_t>(from.int_contents(), where);
            case io::dtype::u8: return narrowed<std::uint8_t>(from.uint_contents(), where);
            case io::dtype::u16: return narrowed<std::uint16_t>(from.uint_contents(), where);
            default: return bytes;
        }
    }

    template <typename T, typename Wide>
    std::span<const std::byte> narrowed(const google::protobuf::RepeatedField<Wide>& from, const std::string& where) {
        std::vector<std::byte>& bytes = to_.narrow.emplace_back(static_cast<std::size_t>(from.size()) * sizeof(T));
        for (int i = 0; i < from.size(); ++i) {
            const Wide wide = from.Get(i);
            const auto value = static_cast<T>(wide);
            if (static_cast<Wide>(value) != wide) {
                refuse_request(where + ": the element " + std::to_string(wide) + " is out of the range from " +
                               std::to_string(std::numeric_limits<T>::min()) + " to " +
                               std::to_string(std::numeric_limits<T>::max()));
            }
            std::memcpy(bytes.data() + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
        }
        return bytes;
    }

    void read_output(const inference::ModelInferRequest::InferRequestedOutputTensor& from) {
        const std::size_t index = require_name(outputs_, from.name(), "output");
        const std::string where = tensor_words("output", from.name());
        if (std::ranges::find(to_.outputs, index, &infer_message::chosen_output::index) != to_.outputs.end())
            refuse_twice(where);
        const region_parameters region = read_region_parameters(from.parameters(), where);
        to_.outputs.push_back({index, {}});
        if (!region.is_empty()) to_.outputs.back().place = find_output_place(shared_memory_, region, where);
    }

    const inference::ModelInferRequest& from_;
    const std::vector<nn::value_info>& inputs_;
    const std::vector<nn::value_info>& outputs_;
    const shared_memory_access& shared_memory_;
    const bool is_streamed_;
    infer_message to_;
    std::vector<bool> is_there_;
    int raw_taken_ = 0;
};

}  // namespace

infer_message read_infer_message(const inference::ModelInferRequest& from, const std::vector<nn::value_info>& inputs,
                                 const std::vector<nn::value_info>& outputs, const shared_memory_access& shared_memory,
                                 bool is_streamed) {
    return message_reading(from, inputs, outputs, shared_memory, is_streamed).read();
}

void write_infer_answer(inference::ModelInferResponse& to, const served_model& model, const std::string& id,
                        const infer_message& request, std::span<const tensor_view> outputs) {
    to.set_model_name(model.name());
    to.set_model_version(std::to_string(model.version()));
    to.set_id(id);
    // Each request has one answer, so no empty one has to say that.
    if (request.says_final) (*to.mutable_parameters())["triton_final_response"].set_bool_param(true);
    for (const auto& [index, place] : request.outputs) {
        const tensor_view& from = outputs[index];
        auto& made = *to.add_outputs();
        made.set_name(model.network().outputs()[index].name);
        made.set_datatype(std::string(datatype_of(from.type)));
        for (const std::size_t each : from.shape.lengths()) made.add_shape(static_cast<std::int64_t>(each));
        if (!place.region) {
            to.add_raw_output_contents(from.bytes.data(), from.bytes.size());
            continue;
        }
        place.write(from.bytes, tensor_words("output", made.name()));
        to.add_raw_output_contents();  // clients count them as they count outputs
        auto& parameters = *made.mutable_parameters();
        parameters["shared_memory_region"].set_string_param(place.region->name());
        parameters["shared_memory_byte_size"].set_int64_param(static_cast<std::int64_t>(from.bytes.size()));
        if (place.offset != 0)
            parameters["shared_memory_offset"].set_int64_param(static_cast<std::int64_t>(place.offset));
    }
}

}  // namespace sluice::serve

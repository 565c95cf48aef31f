// SPDX-License-Identifier: Apache-2.0
#include "serve/grpc/infer_answer.hpp"

#include <grpc/slice.h>
#include <grpcpp/support/slice.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <string>

#include "serve/grpc/wire_writer.hpp"
#include "serve/request_checks.hpp"
#include "serve/text_elements.hpp"

namespace sluice::serve {
namespace {

// The numbers of the fields in inference.proto.
namespace response_field {
constexpr std::uint32_t model_name = 1, model_version = 2, id = 3, parameters = 4, outputs = 5, raw_output_contents = 6;
}
namespace output_tensor_field {
constexpr std::uint32_t name = 1, datatype = 2, shape = 3, parameters = 4;
}
namespace parameter_field {
constexpr std::uint32_t boolean = 1, int64 = 2, text = 3;
}
namespace stream_field {
constexpr std::uint32_t error_message = 1, infer_response = 2;
}
namespace entry_field {
constexpr std::uint32_t key = 1, value = 2;
}

// gRPC ends the process where it gets no memory for a slice; from this length on, the memory is ours, and the request
// fails.
constexpr std::size_t long_answer = 64 << 10;

// Of a message, as protobuf has it: no client reads a longer one, and from 4 GiB on gRPC would write a wrong length.
constexpr std::size_t longest_message = 0x7fffffff;

template <typename Write>
void add_parameter(wire_writer& to, std::uint32_t field, std::string_view key, const Write& write) {
    wire_writer value, entry;
    write(value);
    entry.add_bytes(entry_field::key, key);
    entry.add_bytes(entry_field::value, value.text());
    to.add_bytes(field, entry.text());
}

void add_place(wire_writer& to, const output_place& place, std::size_t bytes) {
    const auto add_count = [&to](std::string_view key, std::uint64_t count) {
        add_parameter(to, output_tensor_field::parameters, key,
                      [count](wire_writer& value) { value.add_number(parameter_field::int64, count); });
    };
    add_parameter(to, output_tensor_field::parameters, "shared_memory_region",
                  [&](wire_writer& value) { value.add_bytes(parameter_field::text, place.region->name()); });
    add_count("shared_memory_byte_size", bytes);
    if (place.offset != 0) add_count("shared_memory_offset", place.offset);
}

void add_output(wire_writer& to, const nn::value_info& info, const tensor_view& from, const output_place& place) {
    wire_writer tensor, shape;
    tensor.add_bytes(output_tensor_field::name, info.name);
    tensor.add_bytes(output_tensor_field::datatype, datatype_of(info));
    for (const std::size_t each : from.shape.lengths()) shape.add_varint(each);
    if (from.shape.rank() != 0) tensor.add_bytes(output_tensor_field::shape, shape.text());
    if (place.region) add_place(tensor, place, from.bytes.size());
    to.add_bytes(response_field::outputs, tensor.text());
}

std::size_t length_of_varint(std::uint64_t value) {
    std::size_t length = 1;
    for (; value >= 0x80; value >>= 7U) ++length;
    return length;
}

void require_length(std::size_t message) {
    if (message <= longest_message) return;
    refuse_request("the answer has " + std::to_string(message) + " bytes; a message of gRPC has at most " +
                   std::to_string(longest_message) + ": ask for fewer outputs or rows");
}

// Memory that gRPC owns, of a message that is written at once.
class message_memory {
public:
    explicit message_memory(std::size_t size) {
        if (size < long_answer) {
            slice_ = ::grpc_slice_malloc(size);
            at_ = GRPC_SLICE_START_PTR(slice_);
        } else {
            void* const made = ::operator new(size);
            slice_ = ::grpc_slice_new(made, size, [](void* its) { ::operator delete(its); });
            at_ = static_cast<unsigned char*>(made);
        }
    }
    message_memory(const message_memory&) = delete;
    message_memory& operator=(const message_memory&) = delete;
    ~message_memory() { ::grpc_slice_unref(slice_); }

    void add(const void* from, std::size_t size) noexcept {
        if (size != 0) std::memcpy(at_, from, size);
        at_ += size;
    }
    void add(std::string_view from) noexcept { add(from.data(), from.size()); }
    grpc::Slice message() const { return {slice_, grpc::Slice::ADD_REF}; }

private:
    grpc_slice slice_{};
    unsigned char* at_ = nullptr;
};

}  // namespace

grpc::Slice write_infer_answer(const served_model& model, std::string_view id, const infer_message& request,
                               std::span<const tensor_view> computed, bool is_streamed) {
    const protocol_outputs outputs(model.network(), computed, request.outputs);
    wire_writer head;
    head.add_bytes(response_field::model_name, model.name());
    head.add_bytes(response_field::model_version, std::to_string(model.version()));
    if (!id.empty()) head.add_bytes(response_field::id, id);
    // Each request has one answer, so no empty one has to say that.
    if (request.says_final) {
        add_parameter(head, response_field::parameters, "triton_final_response",
                      [](wire_writer& value) { value.add_number(parameter_field::boolean, 1); });
    }
    std::size_t raw_bytes = 0;
    for (const auto& [index, place] : request.outputs) {
        const tensor_view& from = outputs[index];
        add_output(head, model.network().outputs()[index], from, place);
        const std::size_t size = place.region ? 0 : from.bytes.size();
        raw_bytes += 1 + length_of_varint(size) + size;
    }
    wire_writer frame;
    const std::size_t size = head.text().size() + raw_bytes;
    if (is_streamed) frame.begin_bytes(stream_field::infer_response, size);
    require_length(frame.text().size() + size);
    for (const auto& [index, place] : request.outputs) {
        if (place.region)
            place.write(outputs[index].bytes, tensor_words("output", model.network().outputs()[index].name));
    }
    message_memory made(frame.text().size() + size);
    made.add(frame.text());
    made.add(head.text());
    for (const auto& [index, place] : request.outputs) {
        // One in shared memory has an empty entry: clients count them as they count outputs.
        const std::span<const std::byte> bytes = place.region ? std::span<const std::byte>() : outputs[index].bytes;
        wire_writer each;
        each.begin_bytes(response_field::raw_output_contents, bytes.size());
        made.add(each.text());
        made.add(bytes.data(), bytes.size());
    }
    return made.message();
}

grpc::Slice write_stream_refusal(std::string_view id, std::string_view why) {
    wire_writer response, all;
    if (!id.empty()) response.add_bytes(response_field::id, id);
    all.add_bytes(stream_field::error_message, why);
    all.add_bytes(stream_field::infer_response, response.text());
    message_memory made(all.text().size());
    made.add(all.text());
    return made.message();
}

}  // namespace sluice::serve

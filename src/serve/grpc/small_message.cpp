// SPDX-License-Identifier: Apache-2.0
#include "serve/grpc/small_message.hpp"

#include <grpcpp/support/slice.h>

#include <string>
#include <string_view>

#include "serve/grpc/compressed_message.hpp"
#include "serve/request_checks.hpp"
#include "sluice/serve/refusal.hpp"

namespace sluice::serve {
namespace {

// A message of many small parts takes more memory than it had on its way: at most about this many times as much. An
// unknown field of two bytes takes 16, an entry of a map with its texts more, but it has more bytes too.
constexpr std::size_t times_parsed = 32;

}  // namespace

small_message::small_message(request_budget& budget, std::size_t size) : budget_(budget) {
    if (size > most_bytes) {
        refuse_request("the message has " + std::to_string(size) + " bytes; one of this call has at most " +
                       std::to_string(most_bytes));
    }
    charge(size);
}

// What this many bytes become when they are parsed.
void small_message::charge(std::size_t bytes) { take(bytes * times_parsed); }

void small_message::take(std::size_t bytes) {
    if (!budget_.take(bytes)) throw refusal::for_now("the memory for requests is in use");
    charged_ += bytes;
}

// What is charged is given back where this throws, too: the other constructor is done by then.
small_message::small_message(request_budget& budget, const grpc::ByteBuffer& from, google::protobuf::MessageLite& to,
                             piece_queue& turn)
    : small_message(budget, from.Length()) {
    grpc::Slice whole;
    const bool is_there = !from.Valid() || from.TrySingleSlice(&whole).ok() || from.DumpToSingleSlice(&whole).ok();
    std::string_view text(reinterpret_cast<const char*>(whole.begin()), whole.size());
    std::string unpacked;
    if (const content_coding coding = coding_of(from); coding != content_coding::identity) {
        take(body_unpacker::state_bytes);
        body_unpacker unpacker(text, coding, most_bytes, [this](std::size_t bytes) { charge(bytes); }, "message");
        for (bool is_whole = false; !is_whole; turn.count(unpacker.step_bytes())) is_whole = unpacker.step();
        text = unpacked = unpacker.take();
    }
    if (!is_there || !to.ParseFromArray(text.data(), static_cast<int>(text.size())))
        refuse_request("the message is no " + to.GetTypeName());
}

void write_message(const google::protobuf::MessageLite& from, grpc::ByteBuffer& to) {
    const grpc::Slice whole(from.SerializeAsString());
    grpc::ByteBuffer made(&whole, 1);
    to.Swap(&made);
}

}  // namespace sluice::serve

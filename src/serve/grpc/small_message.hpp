// SPDX-License-Identifier: Apache-2.0
// The messages of all calls but inference: short ones, which protobuf parses and writes.
#pragma once

#include <google/protobuf/message_lite.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstddef>

#include "serve/piece_queue.hpp"
#include "sluice/serve/request_budget.hpp"

namespace sluice::serve {

// Counts the memory of one that is parsed, as long as it is there.
class small_message {
public:
    static constexpr std::size_t most_bytes = 1 << 20;  // of one on its way

    // Parses `from`, which may be compressed, into `to`. Throws refusal: bad_request for a message that is longer, or
    // no such message, too_large for one that would become longer, and unavailable where the memory for requests is in
    // use. Unpacking counts for `turn`.
    small_message(request_budget& budget, const grpc::ByteBuffer& from, google::protobuf::MessageLite& to,
                  piece_queue& turn);
    small_message(const small_message&) = delete;  // it counts once
    small_message& operator=(const small_message&) = delete;
    ~small_message() { budget_.give(charged_); }

private:
    small_message(request_budget& budget, std::size_t size);
    void charge(std::size_t bytes);
    void take(std::size_t bytes);

    request_budget& budget_;
    std::size_t charged_ = 0;
};

void write_message(const google::protobuf::MessageLite& from, grpc::ByteBuffer& to);

}  // namespace sluice::serve

// SPDX-License-Identifier: Apache-2.0
// Requests that are compressed: bodies of HTTP (Content-Encoding: gzip, deflate) and messages of gRPC (grpc-encoding).
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace sluice::serve {

enum class content_coding : unsigned char { identity, gzip, deflate, other };

// That of a field's value. A list of several is `other`.
content_coding content_coding_of(std::string_view value) noexcept;
// "gzip and deflate", or why there are none.
std::string known_content_codings();
bool can_unpack(content_coding coding) noexcept;

// Unpacks a body or a message piece by piece, so that a thread can do other things in between.
//
// Thread safety: one thread at a time.
class body_unpacker {
public:
    // What zlib takes of memory as long as this is there: its owner charges it before it makes one.
    static constexpr std::size_t state_bytes = 40 << 10;

    // The body stays where it is, and outlives this. What it becomes has at most `most` bytes. Calls charge(bytes)
    // before it takes that many bytes more. `called`: "body" or "message", in refusals. Throws std::bad_alloc.
    body_unpacker(std::string_view body, content_coding coding, std::size_t most,
                  std::function<void(std::size_t)> charge, const char* called = "body");
    body_unpacker(const body_unpacker&) = delete;  // zlib knows its address
    body_unpacker& operator=(const body_unpacker&) = delete;
    ~body_unpacker();

    // Unpacks at most piece_bytes, from at most as many. True: all is there. Throws refusal: too_large for a body that
    // would become longer, bad_request for one that is damaged or does not end with its last byte.
    bool step();
    // That the last step has read and made.
    std::size_t step_bytes() const noexcept { return step_bytes_; }
    // After step() was true.
    std::string take() noexcept { return std::move(made_); }

    static constexpr std::size_t piece_bytes = 128 << 10;

private:
    struct implementation;

    void make_room();

    const std::size_t most_;
    const std::function<void(std::size_t)> charge_;
    const char* const called_;
    std::string_view rest_;  // of the body
    std::string made_;
    std::size_t charged_ = 0;
    std::size_t step_bytes_ = 0;
    std::unique_ptr<implementation> zlib_;
};

}  // namespace sluice::serve

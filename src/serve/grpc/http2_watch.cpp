// SPDX-License-Identifier: Apache-2.0
#include "serve/grpc/http2_watch.hpp"

#include <algorithm>

namespace sluice::serve {
namespace {

// RFC 9113, section 6.
enum frame_type : std::uint8_t {
    data = 0,
    headers = 1,
    priority = 2,
    rst_stream = 3,
    settings = 4,
    push_promise = 5,
    ping = 6,
    goaway = 7,
    window_update = 8,
    continuation = 9
};
constexpr std::uint8_t end_stream = 0x1;    // of DATA and HEADERS
constexpr std::uint8_t acknowledges = 0x1;  // of SETTINGS and PING

}  // namespace

http2_frames::frame http2_frames::read() const noexcept {
    const auto at = [this](std::size_t i) { return std::to_integer<std::uint32_t>(head_[i]); };
    return {.length = at(0) << 16 | at(1) << 8 | at(2),
            .type = static_cast<std::uint8_t>(at(3)),
            .flags = static_cast<std::uint8_t>(at(4)),
            .stream = (at(5) & 0x7f) << 24 | at(6) << 16 | at(7) << 8 | at(8)};
}

double http2_watch::leaking::at(clock::time_point now) noexcept {
    if (count_ > 0) count_ = std::max(0.0, count_ - in_a_second_ * std::chrono::duration<double>(now - last_).count());
    last_ = now;
    return count_;
}

bool http2_watch::from_client(std::span<const std::byte> bytes, clock::time_point now) {
    return client_.pass(bytes, [&](const http2_frames::frame& one) { return take(one, now); });
}

void http2_watch::from_server(std::span<const std::byte> bytes) {
    server_.pass(bytes, [&](const http2_frames::frame& one) {
        const bool ends = (one.type == data || one.type == headers) && (one.flags & end_stream) != 0;
        if (ends || one.type == rst_stream) close(one.stream);
        return true;
    });
}

std::size_t http2_watch::counted_streams(clock::time_point now) noexcept {
    return open_.size() + static_cast<std::size_t>(reset_.at(now));
}

bool http2_watch::take(const http2_frames::frame& one, clock::time_point now) {
    switch (one.type) {
        case headers:
        case continuation: return take_headers(one, now);
        case rst_stream:
            if (close(one.stream)) {  // before its answer: nothing is kept of others
                reset_.at(now);
                reset_.add(1);
            }
            return true;
        case data: return one.length != 0 || (one.flags & end_stream) != 0 || take_empty(now);
        case window_update: return true;  // gRPC keeps nothing of it
        case settings:
        case ping: return (one.flags & acknowledges) != 0 || take_empty(now);
        default: return take_empty(now);
    }
}

bool http2_watch::take_headers(const http2_frames::frame& one, clock::time_point now) {
    if (one.type == headers) {
        header_bytes_ = header_frames_ = 0;
        if (one.stream > last_stream_) {
            last_stream_ = one.stream;
            if (counted_streams(now) >= most_) return refuse("too many streams are open or were reset");
            open_.push_back(one.stream);
        }
    }
    header_bytes_ += one.length;
    if (header_bytes_ > most_header_bytes || ++header_frames_ > most_header_frames)
        return refuse("the headers of a stream are too long");
    return true;
}

bool http2_watch::take_empty(clock::time_point now) {
    if (empty_.at(now) >= most_empty_frames) return refuse("too many frames carry nothing");
    empty_.add(1);
    return true;
}

bool http2_watch::refuse(std::string_view why) noexcept {
    why_ = why;
    return false;
}

bool http2_watch::close(std::uint32_t stream) noexcept {
    const auto found = std::ranges::find(open_, stream);
    if (found == open_.end()) return false;
    *found = open_.back();
    open_.pop_back();
    return true;
}

}  // namespace sluice::serve

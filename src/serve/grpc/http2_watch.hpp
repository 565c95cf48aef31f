// SPDX-License-Identifier: Apache-2.0
// http2_watch: looks at the frames of one connection of HTTP/2 as they pass, and says when its client must go.
//
// Why: a stream that is opened and reset costs its client 30 bytes, and gRPC some KB and the work of a call. gRPC shows
// its server neither the stream nor the reset. So streams, resets and frames that carry nothing are counted before gRPC
// sees them. Only the 9 bytes before each frame are read.
//
// Thread safety: one thread at a time.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace sluice::serve {

// Finds the frames in the bytes of one direction.
class http2_frames {
public:
    struct frame {
        std::uint32_t length = 0;
        std::uint8_t type = 0;
        std::uint8_t flags = 0;
        std::uint32_t stream = 0;
    };

    // `preface`: bytes before the first frame.
    explicit http2_frames(std::size_t preface) noexcept : skip_(preface) {}

    // Calls found(frame) for each frame whose 9 bytes end here; as long as it gives true.
    template <typename Found>
    bool pass(std::span<const std::byte> bytes, const Found& found) {
        while (!bytes.empty()) {
            if (skip_ != 0) {
                const std::size_t skipped = skip_ < bytes.size() ? skip_ : bytes.size();
                skip_ -= skipped;
                bytes = bytes.subspan(skipped);
                continue;
            }
            head_[filled_++] = bytes.front();
            bytes = bytes.subspan(1);
            if (filled_ != head_.size()) continue;
            filled_ = 0;
            const frame one = read();
            skip_ = one.length;
            if (!found(one)) return false;
        }
        return true;
    }
    // Between two frames.
    bool is_between() const noexcept { return skip_ == 0 && filled_ == 0; }

private:
    frame read() const noexcept;

    std::array<std::byte, 9> head_{};
    std::size_t filled_ = 0;
    std::size_t skip_;
};

class http2_watch {
public:
    using clock = std::chrono::steady_clock;
    // Streams of a connection that are open, and those that were reset lately, together.
    static constexpr std::size_t most_streams = 512;
    // Of those that were reset, this many are forgotten in a second.
    static constexpr std::size_t forgotten_in_a_second = 256;
    // Frames that carry nothing (SETTINGS, PING, PRIORITY, empty ones) at once, and in each second after that.
    static constexpr std::size_t most_empty_frames = 2048;
    static constexpr std::size_t empty_frames_in_a_second = 512;
    static constexpr std::size_t most_header_bytes = 64 << 10;  // of one stream, as they are sent
    static constexpr std::size_t most_header_frames = 16;       // in which these come

    // A proxy has the streams of many clients: 16 times as many.
    explicit http2_watch(bool is_proxy = false) noexcept : most_(is_proxy ? 16 * most_streams : most_streams) {}

    // What has come from the client, before gRPC gets it. False: the client must go; why() says why.
    bool from_client(std::span<const std::byte> bytes, clock::time_point now);
    // What gRPC has written.
    void from_server(std::span<const std::byte> bytes);
    // The client may get a frame now.
    bool is_between_answers() const noexcept { return server_.is_between(); }

    std::string_view why() const noexcept { return why_; }
    std::size_t open_streams() const noexcept { return open_.size(); }
    // The last stream that the client has opened; 0: none.
    std::uint32_t last_stream() const noexcept { return last_stream_; }
    // Open, and reset lately: each costs memory.
    std::size_t counted_streams(clock::time_point now) noexcept;

private:
    // A number that becomes smaller with time.
    class leaking {
    public:
        explicit leaking(std::size_t in_a_second) noexcept : in_a_second_(static_cast<double>(in_a_second)) {}
        void add(double count) noexcept { count_ += count; }
        double at(clock::time_point now) noexcept;

    private:
        double in_a_second_, count_ = 0;
        clock::time_point last_{};
    };

    bool take(const http2_frames::frame& one, clock::time_point now);
    bool take_headers(const http2_frames::frame& one, clock::time_point now);
    bool take_empty(clock::time_point now);
    bool refuse(std::string_view why) noexcept;
    bool close(std::uint32_t stream) noexcept;

    const std::size_t most_;
    http2_frames client_{24};  // the preface of a client's connection
    http2_frames server_{0};
    std::vector<std::uint32_t> open_;  // in no order; at most most_
    std::uint32_t last_stream_ = 0;
    std::size_t header_bytes_ = 0, header_frames_ = 0;  // of the block that is sent now
    leaking reset_{forgotten_in_a_second};
    leaking empty_{empty_frames_in_a_second};
    std::string_view why_;
};

}  // namespace sluice::serve

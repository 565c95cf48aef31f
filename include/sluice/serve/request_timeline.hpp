// SPDX-License-Identifier: Apache-2.0
// request_timeline: what happened when to the last requests of a server, and two pictures of it: JSON for Perfetto and
// chrome://tracing, and SVG.
//
// Thread safety: all members may be called on any thread. add() takes no lock and no memory, so requests do not wait
// for each other or for a reader.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/serve/infer_call.hpp"

namespace sluice::serve {

// The first bytes of a text, at most Length, without an allocation.
template <std::size_t Length>
class short_text {
    static_assert(Length < 256);

public:
    short_text() = default;
    // Copies the first bytes. Costs O(Length).
    explicit short_text(std::string_view text) noexcept
        : length_(static_cast<std::uint8_t>(text.size() < Length ? text.size() : Length)),
          is_cut_(text.size() > Length) {
        text.copy(text_.data(), length_);
    }

    // Valid as long as this exists. Costs O(1).
    std::string_view view() const noexcept { return {text_.data(), length_}; }
    bool is_cut() const noexcept { return is_cut_; }  // the text was longer

private:
    std::array<char, Length> text_{};
    std::uint8_t length_ = 0;
    bool is_cut_ = false;
};

// How a request came: over HTTP, as one call of gRPC, or in a stream of gRPC.
enum class request_protocol : std::uint8_t { http, grpc, grpc_stream };

// One request to a model, when it is answered or refused. A moment that was not reached is zero.
struct request_record {
    using clock = infer_call::clock;  // of all moments

    clock::time_point received{};                        // its first byte; of gRPC as `complete`
    clock::time_point complete{};                        // its last byte
    infer_call::progress progress = {};                  // in the queue and in a batch
    clock::time_point answered{};                        // before the answer is written
    std::uint64_t version = 0;                           // 0: the model was not found
    std::int32_t status = 0;                             // of HTTP, or of gRPC
    request_protocol protocol = request_protocol::http;  // how it came
    short_text<128> model = {};                          // as the request names it
    short_text<64> id = {};                              // the client's
    short_text<64> device = {};                          // the model's; empty: the model was not found
};

// The last requests of a server. Thread safety: all members may be called on any thread at the same time.
class request_timeline {
public:
    // Requests that are kept; an older one makes room for a newer one.
    static constexpr std::size_t most = 512;

    // Empty. Allocates room for all `most` requests.
    request_timeline();
    request_timeline(const request_timeline&) = delete;  // threads add to it
    request_timeline& operator=(const request_timeline&) = delete;
    ~request_timeline();

    // Keeps a copy. Takes no lock and no memory. Costs O(1): one copy of the record.
    void add(const request_record& what) noexcept;
    // In the order in which they were answered. Those that are written at this moment are left out. Costs O(n log n) in
    // the number of records that it keeps, and two allocations.
    std::vector<request_record> last() const;
    // Requests so far. Costs O(1).
    std::uint64_t added() const noexcept { return next_.load(std::memory_order_relaxed); }
    // Requests that found their place in use by a thread that was interrupted for as long as `most` others took. Costs
    // O(1).
    std::uint64_t skipped() const noexcept { return skipped_.load(std::memory_order_relaxed); }

private:
    struct slot;

    std::unique_ptr<slot[]> slots_;
    std::atomic<std::uint64_t> next_{0};
    std::atomic<std::uint64_t> skipped_{0};
};

// A process for each device; in it a thread for the batches that are computed at a time, and threads for the requests
// that are there at a time. The stages of a request are arrive, parse, queue, join (its inputs are copied), compute and
// finish. Times are in microseconds from the first request's first byte. Costs O(n log n) for n requests, and at most a
// look at each lane for each of them.
std::string chrome_trace_of(std::span<const request_record> requests);
// The same as a stand-alone SVG, at most of the last 100 requests. Time in which none of them was there is left out:
// otherwise requests that are far apart would be too narrow to be seen. Costs what chrome_trace_of costs for these.
std::string picture_of(std::span<const request_record> requests);

}  // namespace sluice::serve

// SPDX-License-Identifier: Apache-2.0
// answer_watch: ends calls whose client does not take an answer in time. An answer that is not read would keep its
// memory, and its call, as long as the connection is there.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <grpcpp/server_context.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <stop_token>
#include <thread>

namespace sluice::serve {

class answer_watch {
public:
    // Of a call: whether one of its answers is on its way, and since when.
    class entry {
    public:
        // `call` must be there between begin() and end().
        explicit entry(grpc::ServerContext& call) noexcept : call_(call) {}
        entry(const entry&) = delete;  // the watch knows its address
        entry& operator=(const entry&) = delete;

    private:
        friend class answer_watch;

        grpc::ServerContext& call_;
        std::chrono::steady_clock::time_point since_{};
        entry* before_ = nullptr;
        entry* after_ = nullptr;
        bool is_in_ = false;
    };

    // `at_most`: the time that an answer has.
    explicit answer_watch(std::chrono::milliseconds at_most);
    answer_watch(const answer_watch&) = delete;  // its thread knows its address
    answer_watch& operator=(const answer_watch&) = delete;

    // No call is ended any more. Blocks until the watch's thread has ended; needs a thread of no call.
    void stop();

    // An answer is given to gRPC after this. `its` must stay until end().
    void begin(entry& its) noexcept;
    // The answer is taken, or its call has ended. Also without begin(), and twice.
    void end(entry& its) noexcept;

    // Calls that were ended.
    std::uint64_t count() const noexcept { return ended_; }

private:
    void remove(entry& its) noexcept;
    void look(const std::stop_token& end);

    const std::chrono::milliseconds at_most_;
    std::atomic<std::uint64_t> ended_{0};
    // Recursive, because gRPC may call back on the thread that cancels a call.
    std::recursive_mutex mutex_;  // of what follows, and of the entries
    std::condition_variable_any wakes_;
    entry* oldest_ = nullptr;
    entry* newest_ = nullptr;
    std::jthread thread_;
};

}  // namespace sluice::serve

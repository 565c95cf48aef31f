// The worker threads of a CPU device. They run streams that have something to do, each by one worker at a
// time; a stream that must wait for another gives its worker back. Of those that are ready, the ones with the lower
// priority number go first, in turns among equals.
//
// Thread safety: all members may be called on any thread; close() once.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "cpu/ring_queue.hpp"

namespace sluice::cpu {

class cpu_stream;

class executor {
public:
    explicit executor(std::size_t workers);
    executor(const executor&) = delete;  // streams and threads point to it
    executor& operator=(const executor&) = delete;
    ~executor() { close(); }

    // Streams of one priority that have something to do.
    struct line {
        int priority;
        ring_queue<cpu_stream*> ready;
        std::size_t streams = 0;
    };

    // Makes room for one more stream of this priority; lower numbers run first.
    line& add_stream(int priority);
    // Lets a worker run the stream soon. A stream is scheduled at most once at a time, so there is room.
    void schedule(cpu_stream& ready) noexcept;
    std::size_t workers() const noexcept { return workers_; }
    // Ends the threads, after what they run now.
    void close() noexcept;

private:
    void work();
    line* first_ready() noexcept;  // lock held; null when there is none

    const std::size_t workers_;
    std::mutex mutex_;
    std::condition_variable wake_;
    std::list<line> lines_;  // by priority
    bool closing_ = false;
    std::vector<std::thread> threads_;  // last: they use all of the above
};

}  // namespace sluice::cpu

// The worker threads of a CPU device. They run streams that have something to do, each by one worker at a
// time; a stream that must wait for another gives its worker back.
//
// Thread safety: all members may be called on any thread; close() once.
#pragma once

#include <condition_variable>
#include <cstddef>
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

    // Makes room for one more stream.
    void add_stream();
    // Lets a worker run the stream soon. A stream is scheduled at most once at a time, so there is room.
    void schedule(cpu_stream& ready) noexcept;
    std::size_t workers() const noexcept { return workers_; }
    // Ends the threads, after what they run now.
    void close() noexcept;

private:
    void work();

    const std::size_t workers_;
    std::mutex mutex_;
    std::condition_variable wake_;
    ring_queue<cpu_stream*> ready_;
    std::size_t streams_ = 0;
    bool closing_ = false;
    std::vector<std::thread> threads_;  // last: they use all of the above
};

}  // namespace sluice::cpu

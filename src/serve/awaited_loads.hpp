// SPDX-License-Identifier: Apache-2.0
// awaited_loads: a thread that loads models, one after the other, and wakes the requests that wait for them.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace sluice::serve {

class awaited_loads {
public:
    using clock = std::chrono::steady_clock;
    static constexpr std::chrono::seconds retry_after{5};  // the first time after a load that has failed

    // `load` gives why it has failed; empty: it has not. It throws nothing. Throws std::system_error.
    explicit awaited_loads(std::function<std::string(const std::string&)> load);
    awaited_loads(const awaited_loads&) = delete;  // its thread knows its address
    awaited_loads& operator=(const awaited_loads&) = delete;
    ~awaited_loads() { end(); }

    // Blocks until the load that runs has ended; all that wait are woken. Begins no more. Not on several threads at
    // once.
    void end();

    // Where a load of the model runs or waits: true, and `then` is taken, and called on the thread that loads, when the
    // load has ended. It throws nothing, and does not block. Throws std::bad_alloc.
    bool join(std::string_view name, const std::function<void()>& then);
    // The same, with a load of its own where there is none.
    void begin(std::string_view name, std::function<void()> then);
    // Why the last load of the model has failed, for a while; empty: it is time for another.
    std::string failure_of(std::string_view name) const;

private:
    using waiting = std::vector<std::function<void()>>;
    struct failure {
        std::string why;
        clock::time_point until;
    };

    void run();
    void note(const std::string& name, std::string why) noexcept;
    void wake_all() noexcept;

    const std::function<std::string(const std::string&)> load_;
    mutable std::mutex mutex_;  // of what follows
    std::condition_variable changed_;
    std::deque<std::string> order_;                        // that wait for their loads
    std::map<std::string, waiting, std::less<>> waiting_;  // for these, and for the load that runs
    std::map<std::string, failure, std::less<>> failed_;
    bool ends_ = false;
    std::thread thread_;
};

}  // namespace sluice::serve

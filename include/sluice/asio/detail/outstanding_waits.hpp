// SPDX-License-Identifier: Apache-2.0
// The list of the waits of one Asio execution context that have not ended yet. Does not depend on Asio.
//
// A wait ends once. Either what it waits for completes, or the wait is canceled, and its handler is delivered to its
// executor; or the context is destroyed, and the handler with it. The thread that takes the wait out of the list, under
// the list's lock, decides which.
//
// Thread safety: all members may be called on any thread; those of a wait after begin() has started it.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

#include "sluice/async/spawn_task.hpp"

namespace sluice::detail {

class outstanding_wait;

class outstanding_waits {
public:
    outstanding_waits() = default;
    outstanding_waits(const outstanding_waits&) = delete;  // shared
    outstanding_waits& operator=(const outstanding_waits&) = delete;
    ~outstanding_waits() = default;

    // The context is being destroyed: drops all handlers, on this thread. Blocks while another thread posts a handler.
    void close() noexcept;

private:
    friend class outstanding_wait;

    bool add(outstanding_wait& one) noexcept;
    // Returns whether it was in the list. Then the context lives until the caller has called has_delivered().
    bool take(outstanding_wait& one) noexcept;
    void has_delivered() noexcept;
    void unlink(outstanding_wait& one) noexcept;

    std::mutex mutex_;
    std::condition_variable none_delivers_;
    outstanding_wait* first_ = nullptr;
    int delivering_ = 0;
    bool is_closed_ = false;
};

class outstanding_wait : public std::enable_shared_from_this<outstanding_wait> {
public:
    enum class end { completed, canceled };

    outstanding_wait(const outstanding_wait&) = delete;  // lists point to it
    outstanding_wait& operator=(const outstanding_wait&) = delete;
    virtual ~outstanding_wait() = default;

    // Joins the list and starts. When the context is being destroyed already, drops the handler instead.
    void begin(std::shared_ptr<outstanding_waits> among) noexcept;
    // What it waits for has completed. Called once, on any thread; allocates, since it posts: blocks while
    // memory is out.
    void complete() noexcept;
    // Ends the wait, unless it has ended: delivers the handler when no function of a host-driven operation runs or will
    // run. The caller keeps this object alive.
    void cancel() noexcept;

protected:
    outstanding_wait() = default;

private:
    friend class outstanding_waits;

    // Arranges for complete(), which may be called before this returns, and may destroy this object.
    virtual void start() noexcept = 0;
    // Posts the handler to its executor. Never calls it.
    virtual void deliver(end how) noexcept = 0;
    virtual void drop_handler() noexcept = 0;
    // Abandons what it waits for. now: complete() will not be called. soon: it will be called, and until then a
    // function of what it waits for is running.
    virtual abandonment abandon() noexcept = 0;

    std::shared_ptr<outstanding_waits> among_;
    std::shared_ptr<outstanding_wait>
        alive_;  // itself, until complete(), or until complete() cannot be called any more
    // Belong to the list, under its lock.
    outstanding_wait* next_ = nullptr;
    outstanding_wait* previous_ = nullptr;
    bool is_linked_ = false;
    std::shared_ptr<outstanding_wait> next_dropped_;
    bool is_canceled_ = false;  // delivered when it completes
};

}  // namespace sluice::detail

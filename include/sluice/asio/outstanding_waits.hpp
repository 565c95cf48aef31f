// The waits of one execution context of Asio's that have not ended yet. Knows nothing of Asio.
//
// A wait ends once: what it waits for has come, or somebody gave up, and its handler is told; or its context goes, and
// the handler is dropped with it. Whoever takes the wait out of the list, under the list's lock, has decided which.
//
// Thread safety: all members may be called on any thread, those of a wait once begin() has returned or started it.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

namespace sluice::detail {

class outstanding_wait;

class outstanding_waits {
public:
    outstanding_waits() = default;
    outstanding_waits(const outstanding_waits&) = delete;  // shared
    outstanding_waits& operator=(const outstanding_waits&) = delete;
    ~outstanding_waits() = default;

    // The context is going: drops all handlers, here. Blocks while a handler is just being handed to the context.
    void close() noexcept;

private:
    friend class outstanding_wait;

    bool add(outstanding_wait& one) noexcept;
    // Whether it was still there. Then the context stays until the caller has told, and says so.
    bool take(outstanding_wait& one) noexcept;
    void has_told() noexcept;
    void unlink(outstanding_wait& one) noexcept;

    std::mutex mutex_;
    std::condition_variable nobody_tells_;
    outstanding_wait* first_ = nullptr;
    int telling_ = 0;
    bool is_closed_ = false;
};

class outstanding_wait : public std::enable_shared_from_this<outstanding_wait> {
public:
    enum class end { come, given_up };

    outstanding_wait(const outstanding_wait&) = delete;  // lists point to it
    outstanding_wait& operator=(const outstanding_wait&) = delete;

    // Joins the waits and starts. When their context is going already, drops the handler instead.
    void begin(std::shared_ptr<outstanding_waits> among) noexcept;
    // What it waits for has come. Once, on any thread; allocates, as posting does.
    void come() noexcept;
    // Nobody waits any longer: the handler is told, unless it has been. The caller keeps this alive.
    void give_up() noexcept;

protected:
    outstanding_wait() = default;
    virtual ~outstanding_wait() = default;

private:
    friend class outstanding_waits;

    // Arranges for come(), which may be called before this returns. All may be gone then.
    virtual void start() noexcept = 0;
    // Hands the handler to its executor. Never calls it.
    virtual void tell(end how) noexcept = 0;
    virtual void drop_handler() noexcept = 0;
    // What was waited for is of no use any more. Whether it is certain that come() will not be called.
    virtual bool abandon() noexcept = 0;

    std::shared_ptr<outstanding_waits> among_;
    std::shared_ptr<outstanding_wait> coming_;  // itself, until come(), or until it is certain not to come
    // The list's, under its lock.
    outstanding_wait* next_ = nullptr;
    outstanding_wait* previous_ = nullptr;
    bool is_linked_ = false;
    std::shared_ptr<outstanding_wait> next_dropped_;
};

}  // namespace sluice::detail

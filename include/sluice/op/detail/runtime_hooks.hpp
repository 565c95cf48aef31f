// SPDX-License-Identifier: Apache-2.0
// All that operations need of the runtime. Declared here and defined in src/runtime/runtime_hooks.cpp and
// src/runtime/submission_once.cpp, so that combinators know nothing of devices.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>

namespace sluice {

class execution_context;

namespace detail {

// Throws errc::invalid_argument: the operation was used before, or moved from.
[[noreturn]] void refuse_used_operation(const char* operation);
// The same for a value that was moved from: "a shared value".
[[noreturn]] void refuse_moved_value(const char* what);

// The context that an independent branch of `context` is submitted to. Owned by `context`, lives as long.
execution_context& branch_of(execution_context& context);

// While it lives, commands that are submitted to the context have the name, which outlives it. Scopes of one context
// end in the reverse order.
class name_scope {
public:
    name_scope(execution_context& context, const std::string& name) noexcept;
    name_scope(execution_context& context, const std::string&& name) = delete;  // it keeps the name's address
    name_scope(const name_scope&) = delete;                                     // it undoes what it did
    name_scope& operator=(const name_scope&) = delete;
    ~name_scope();

private:
    execution_context& context_;
    const std::string* const outer_;
};

// Keeps an object until all is over that was submitted to the context before this is destroyed; in a recording, for as
// long as the recorded commands may run.
class keep_scope {
public:
    keep_scope(execution_context& context, std::shared_ptr<const void> object);
    keep_scope(const keep_scope&) = delete;  // what it keeps points to it
    keep_scope& operator=(const keep_scope&) = delete;
    ~keep_scope();

private:
    struct kept;
    execution_context& context_;
    std::unique_ptr<kept> kept_;  // null in a recording
};

// Orders what is submitted to a context after what was submitted to first(), on all streams, while it lives.
class order_scope {
public:
    explicit order_scope(execution_context& context);
    order_scope(const order_scope&) = delete;  // it undoes what it did
    order_scope& operator=(const order_scope&) = delete;
    ~order_scope();

    // The context for what comes first, until end_first().
    execution_context& first() const noexcept { return *first_; }
    void end_first();

private:
    execution_context& context_;
    std::shared_ptr<execution_context> own_;  // null in a recording
    execution_context* first_;
    std::size_t mark_ = 0;  // the number of nodes, or of points to be after, before
    bool is_ordering_ = false;
};

// Work that is submitted once and used by several operations: each of them waits for it, and gets its failure.
class shared_submission {
public:
    // Opens a context of its own on the stream of `caller`.
    void open(execution_context& caller);
    // Between open and close.
    execution_context& context() const noexcept;
    // All of it has been submitted.
    void close();
    // The submission failed; nothing more is submitted.
    void drop() noexcept;

    // Operations that wait for what is submitted to the context also wait for this, and share its failure. After drop
    // they wait for what was submitted before.
    void join(execution_context& context) const;

private:
    std::shared_ptr<execution_context> own_;  // while it is open
    std::shared_ptr<const void> submission_;
};

// Decides which thread submits what is submitted once; the other threads wait for it.
//
// Thread safety: all members may be called on any thread.
class submission_once {
public:
    submission_once() = default;
    submission_once(const submission_once&) = delete;  // threads wait for it
    submission_once& operator=(const submission_once&) = delete;
    ~submission_once() = default;

    // True: the caller submits, and then calls end(). False: it has been submitted. Throws errc::invalid_argument when
    // the submission waits for the caller, and could never end.
    bool begin();
    void end() noexcept;

private:
    enum class state : unsigned char { open, running, over };

    void refuse_circle() const;

    std::atomic<state> state_{state::open};
    std::thread::id runner_;  // guarded by one mutex for all: a thread that waits for one may run another
};

}  // namespace detail
}  // namespace sluice

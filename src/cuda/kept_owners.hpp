// SPDX-License-Identifier: Apache-2.0
// What the commands of a stream still use: host memory, graphs, functions of modules. Each is kept until a command of
// the stream has passed.
//
// Thread safety: keep() is called by one thread at a time, the others on any thread. Nothing is destroyed with a lock
// held, because a destructor may run the user's code. No call of the driver happens here.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>

#include "sluice/runtime/command.hpp"
#include "sluice/runtime/ticket.hpp"

namespace sluice::cuda {

class kept_owners {
public:
    // When an object is kept: until the command `until` has passed, which is later than those of earlier calls.
    // Commands up to `passed` have already passed: what they used is released then.
    struct span {
        ticket passed;
        ticket until;
    };
    void keep(const std::shared_ptr<const void>& owner, span when);
    // The same, without a lock and without a reference count for what the latest such call kept: the function of a
    // launch; the graph that a command launches, and the objects that own it. Then nothing is released.
    void keep_function(const loaded_function& function, span when);
    void keep_graph(const std::shared_ptr<const void>& graph, span when) { keep_again(graph_, graph, when); }
    void keep_graph_owner(const std::shared_ptr<const void>& owner, span when) {
        keep_again(graph_owner_, owner, when);
    }

    // Releases what no command after `passed` uses.
    void drop(ticket passed) noexcept;
    void drop_all() noexcept { drop(~ticket{0}); }

private:
    // What was kept latest. The thread that keeps it again raises `until`, a thread that drops it sets 0: the exchange
    // decides which comes first.
    struct latest {
        std::atomic<ticket> until{0};
        const void* known = nullptr;        // of the thread that keeps
        std::shared_ptr<const void> owner;  // guarded by mutex_

        bool keeps(const void* object, ticket longer) noexcept;
    };
    struct kept {
        ticket until;
        std::shared_ptr<const void> owner;
    };
    void keep_again(latest& in, const std::shared_ptr<const void>& owner, span when);
    void replace(latest& in, std::shared_ptr<const void> by, const void* known, span when);
    // Called with the lock held.
    void list(std::shared_ptr<const void> owner, ticket until);
    std::shared_ptr<const void> take_passed(ticket passed) noexcept;

    std::atomic<bool> has_any_{false};  // read without the lock by each drop()
    latest function_, graph_, graph_owner_;
    std::mutex mutex_;
    std::deque<kept> all_;  // guarded by mutex_
};

}  // namespace sluice::cuda

// SPDX-License-Identifier: Apache-2.0
// runs_at_once: a stream of a device whose commands our own threads carry out. It can run a recorded list on the
// calling thread, not as a command of its queue: without a ticket, a wait or a wake-up.
//
// For callers that own all memory that the list writes, and know that what it reads is complete. A decorator (a
// recorder of traces) does not implement it, so that nothing runs unseen.
#pragma once

#include <exception>

namespace sluice::detail {

struct replay_list;

class runs_at_once {
public:
    // Returns what failed first, or null. Blocks until all is done; workers of the device may carry out parts of large
    // commands. Allocates no memory. Thread safety: may be called on any thread, for one list on one thread at a time.
    virtual std::exception_ptr run_at_once(const replay_list& list) = 0;

protected:
    ~runs_at_once() = default;
};

}  // namespace sluice::detail

// SPDX-License-Identifier: Apache-2.0
// executor: runs work items. work_item: a piece of work that can be queued without allocating.
//
// The creator of a work_item owns it and keeps it alive until it has run. The function that it runs may destroy it, or
// post it again. It can be in one queue at a time.
#pragma once

namespace sluice {

// A piece of work that can be queued without allocating: see the top of this file.
class work_item {
public:
    using function = void (*)(work_item&) noexcept;  // what the item runs; it gets the item itself

    // `what` is called with the item, on the thread that runs it. Costs O(1).
    explicit work_item(function what) noexcept : run_(what) {}
    work_item(const work_item&) = delete;  // queues point to it
    work_item& operator=(const work_item&) = delete;

    // The item may be destroyed when this returns. Costs one call of the function.
    void run() noexcept { run_(*this); }

    work_item* next_ = nullptr;  // belongs to the queue that holds the item

private:
    function run_;
};

class executor {
public:
    executor() = default;
    executor(const executor&) = delete;  // queued items point to it
    executor& operator=(const executor&) = delete;
    virtual ~executor() = default;

    // Runs the item once, on a thread of the executor's choosing. Any thread may call it; it does not wait for the
    // item, allocates nothing and cannot fail. The item may have run, and be destroyed, before post returns.
    virtual void post(work_item& item) noexcept = 0;
};

// Runs items at once, inside post, on the posting thread.
class inline_executor final : public executor {
public:
    void post(work_item& item) noexcept override { item.run(); }
};

}  // namespace sluice

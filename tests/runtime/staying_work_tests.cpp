// SPDX-License-Identifier: Apache-2.0
// Work that stays on its stream, and the device that waits for all other work.
#include "runtime/staying_work.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>

#include "sluice/runtime/detail/command_queue.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/runtime.hpp"
#include "support/gate.hpp"

namespace sluice::staying_work_tests {
namespace {

// Stays until it is destroyed.
class work final : public detail::staying_work {
public:
    explicit work(device& on) : all_(detail::staying_works_of(on)), lease_(on) {}
    ~work() {
        if (!held_) return;
        end();
        all_.remove(*this);
    }

    stream home() const { return *lease_; }
    void begin() {
        before_ = lease_->issued();
        all_.add(*this);
        held_.emplace(*lease_);
    }

    const command_queue& queue() const noexcept override { return lease_->queue(); }
    ticket before() const noexcept override { return before_; }
    void end() noexcept override { held_->open(); }

private:
    detail::staying_works& all_;
    stream_lease lease_;
    std::optional<test_support::gate> held_;
    ticket before_ = 0;
};

}  // namespace

// On a CPU: a GPU's stream is waited for as a whole, with the gate, unless what it had before is known to be over.
TEST(staying_works, are_not_waited_for_but_what_their_stream_had_before_is) {
    runtime machine(runtime_options{.cuda = false});
    device& on = machine.default_device();
    work stays(on);
    std::atomic<bool> is_over{false};
    stays.home().host_call({"before"}, {[&] {
                               for (int i = 0; i < 1000; ++i) std::this_thread::yield();
                               is_over = true;
                           }});
    const ticket before = stays.home().issued();
    stays.begin();
    EXPECT_EQ(detail::staying_works_of(on).last_to_wait_for(stays.queue()), before);
    on.synchronize();
    EXPECT_TRUE(is_over);
    EXPECT_GT(stays.home().issued(), before);
}

TEST(staying_works, leave_streams_of_others_and_streams_without_such_work_as_they_are) {
    runtime machine;
    device& on = machine.default_device();
    work stays(on);
    stays.begin();
    const stream_lease other(on);
    other->host_call({"other"}, {[] {}});
    EXPECT_EQ(detail::staying_works_of(on).last_to_wait_for(other->queue()), other->issued());
}

TEST(staying_works, that_have_ended_are_waited_for_as_all_work) {
    runtime machine;
    device& on = machine.default_device();
    const command_queue* queue = nullptr;
    {
        work stays(on);
        stays.begin();
        queue = &stays.queue();
    }
    EXPECT_EQ(detail::staying_works_of(on).last_to_wait_for(*queue), queue->issued());
    EXPECT_GT(queue->issued(), 0u);
    on.synchronize();
}

}  // namespace sluice::staying_work_tests

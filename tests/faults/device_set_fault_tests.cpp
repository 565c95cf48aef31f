// SPDX-License-Identifier: Apache-2.0
// One device of two breaks: work that does not depend on it continues, and work that does receives the error.
#include "conformance/support/awaiting.hpp"
#include "faults/faulty_backend.hpp"
#include "sluice/devices/copy_to.hpp"
#include "sluice/devices/device_set.hpp"
#include "sluice/devices/on_device.hpp"
#include "sluice/kernels/elementwise.hpp"

namespace sluice::faults::device_set_fault_tests {
namespace {

using conformance::failure_of;
using numbers = std::vector<unsigned>;
constexpr std::size_t size = 200;
constexpr const char* told = "a command on fake:0: broken";

class one_of_two : public testing::Test {
protected:
    auto work(unsigned start) const { return full<unsigned>({size}, start).and_then(download); }
    auto moved(unsigned start) {
        return on_device(fakes.on, full<unsigned>({size}, start)).and_then(copy_to(fakes.other));
    }
    auto moved_and_read(unsigned start) {
        return moved(start).and_then([this](auto x) { return on_device(fakes.other, download(std::move(x))); });
    }

    faulty_runtime fakes;
    const device_set both{fakes.on, fakes.other};
    round_robin_devices pool{both, 2};
    scheduling_policy& first = pool.on(fakes.on);
    scheduling_policy& second = pool.on(fakes.other);
};

}  // namespace

TEST_F(one_of_two, both_work_before_the_fault) {
    for (unsigned i = 0; i < 20; ++i) EXPECT_EQ(sync(moved_and_read(i), pool), numbers(size, i));
    EXPECT_EQ(spawn(moved_and_read(7), pool).get(), numbers(size, 7));
    EXPECT_EQ(sync_wait(conformance::value_of(spawn(moved_and_read(8), pool))), numbers(size, 8));
}

TEST_F(one_of_two, the_other_finishes_its_work) {
    fakes.first.works.hold();
    std::vector<device_future<pending<numbers>>> lost;
    std::vector<device_future<pending<numbers>>> kept;
    for (unsigned i = 0; i < 10; ++i) {
        lost.push_back(spawn(work(i), first));
        kept.push_back(spawn(work(i), second));
    }
    fakes.first.works.fault("broken");
    for (auto& each : lost) EXPECT_EQ(failure_of(std::move(each)), told);
    for (unsigned i = 0; i < 10; ++i) EXPECT_EQ(std::move(kept[i]).get(), numbers(size, i));
    EXPECT_FALSE(fakes.other.is_poisoned());
    EXPECT_EQ(sync(work(3), second), numbers(size, 3));
    EXPECT_EQ(failure_of([&] { sync(work(3), first); }), told);
}

TEST_F(one_of_two, data_copied_before_the_fault_stays_valid) {
    auto x = spawn(moved(5), pool).get();
    sync(work(1), second);
    fakes.other.synchronize();
    fakes.first.works.fault("broken");
    EXPECT_EQ(failure_of([&] { sync(work(3), first); }), told);
    EXPECT_EQ(sync(on_device(fakes.other, download(std::move(x))), second), numbers(size, 5));
    EXPECT_FALSE(fakes.other.is_poisoned());
}

// No thread polls the first device: a waiter on the other device must find out.
TEST_F(one_of_two, a_waiter_for_a_copy_from_it_receives_the_error) {
    fakes.first.works.hold();
    auto blocking = spawn(moved_and_read(1), pool);
    auto awaited = spawn(moved_and_read(2), pool);
    fakes.first.works.fault("broken");
    EXPECT_EQ(failure_of(std::move(blocking)), told);
    EXPECT_EQ(failure_of([&] { sync_wait(conformance::value_of(std::move(awaited))); }), told);
}

TEST_F(one_of_two, a_sync_that_depends_on_it_receives_the_error) {
    fakes.first.works.hold();
    std::thread breaks([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        fakes.first.works.fault("broken");
    });
    EXPECT_EQ(failure_of([&] { sync(moved_and_read(1), pool); }), told);
    breaks.join();
}

// Everything after a command that never runs would wait for ever.
TEST_F(one_of_two, a_device_that_waits_for_it_has_failed_with_it) {
    fakes.first.works.hold();
    auto needy = spawn(moved(1), pool);
    auto later = spawn(work(2), second);
    auto separate = spawn(work(3), second);
    fakes.first.works.fault("broken");
    EXPECT_EQ(failure_of(std::move(needy)), told);
    const std::string one = failure_of(std::move(later)), two = failure_of(std::move(separate));
    for (const std::string& each : {one, two}) EXPECT_TRUE(each.empty() || each == told) << each;
    // Another thread poisons the device, soon.
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!fakes.other.is_poisoned() && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    EXPECT_EQ(failure_of([&] { sync(work(4), second); }), told);
}

TEST_F(one_of_two, a_copy_from_a_device_known_to_have_failed_is_refused_and_the_other_continues) {
    const shared_tensor<unsigned> lost(sync(on_device(fakes.on, full<unsigned>({size}, 1)), pool));
    fakes.first.works.hold();
    auto x = spawn(work(1), first);
    fakes.first.works.fault("broken");
    EXPECT_EQ(failure_of(std::move(x)), told);
    EXPECT_EQ(failure_of([&] { sync(copy_to(fakes.other, lost), pool); }), told);
    // Time for a wrong error to arrive.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(sync(work(4), second), numbers(size, 4));
    EXPECT_FALSE(fakes.other.is_poisoned());
}

}  // namespace sluice::faults::device_set_fault_tests

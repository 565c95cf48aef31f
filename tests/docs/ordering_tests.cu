// SPDX-License-Identifier: Apache-2.0
// The code in docs/ordering.md.
#include <gtest/gtest.h>

#include "sluice/sim/explore.hpp"
#include "sluice/sluice.hpp"

namespace sluice::docs::ordering_tests {
namespace {

struct add_one {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<unsigned> x) const {
        if (unsigned* element = x.at(at)) *element += 1;
    }
};

}  // namespace

TEST(ordering, a_stream_reads_what_another_stream_has_written) {
    runtime machine;
    round_robin pool(machine.default_device(), 4);
    auto uploaded = spawn(upload(std::vector<unsigned>(1000, 1)), pool);  // on one stream
    tensor<unsigned> x = std::move(uploaded).get();
    auto changed = launch(add_one{}, each_of(x), std::move(x));  // on the next one, after the upload
    EXPECT_EQ(sync(std::move(changed).and_then(download), pool), std::vector<unsigned>(1000, 2));
}

TEST(ordering, memory_is_dropped_and_reused_without_waiting) {
    runtime machine;
    round_robin pool(machine.default_device(), 4);
    for (unsigned i = 0; i < 100; ++i) static_cast<void>(spawn(upload(std::vector<unsigned>(1000, i)), pool));
    EXPECT_EQ(sync(upload(std::vector<unsigned>(3, 5)).and_then(download), pool), std::vector<unsigned>(3, 5));
}

TEST(ordering, a_host_buffer_waits_for_its_users) {
    runtime machine;
    single_stream pool(machine.default_device());
    host_buffer<float> input(pool.next(), 3);
    const std::span<float> values = input.write();  // waits until no command uses it: none does
    values[0] = values[1] = values[2] = 1;
    auto uploaded = sync(upload(std::move(input), {3}).and_then(download), pool);
    EXPECT_EQ(uploaded, (std::vector<float>{1, 1, 1}));
}

TEST(ordering, operations_without_common_data_are_ordered_by_then) {
    runtime machine;
    round_robin pool(machine.default_device(), 4);
    std::vector<std::string> notes;
    const auto note = [&notes](std::string text) {
        return host_call([&notes, text = std::move(text)] { notes.push_back(text); });
    };
    auto both = zip(note("left"), note("right"));
    sync(note("begin").then(std::move(both)).then(note("end")), pool);
    ASSERT_EQ(notes.size(), 4u);
    EXPECT_EQ(notes.front(), "begin");
    EXPECT_EQ(notes.back(), "end");
}

TEST(ordering, the_simulator_finds_no_fault) {
    const auto pipeline = [] {
        return zip(upload(std::vector<float>{1}), zeros<float>({1})).and_then([](auto x, auto y) {
            return zip(download(std::move(x)), download(std::move(y)));
        });
    };
    sim::explore(pipeline, {.schedules = 100}).require_clean();
}

}  // namespace sluice::docs::ordering_tests

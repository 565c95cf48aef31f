// SPDX-License-Identifier: Apache-2.0
// Programs with one mistake, and programs without any, as traces. Each of the first kind is found, by its name, and
// none of the second.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "check/support/simulated_driver.hpp"

namespace sluice::check::planted_tests {
namespace {

using testing::reads;
using testing::simulated_driver;
using testing::touches;
using testing::writes;

struct program {
    const char* name;
    void (*run)(simulated_driver& cuda);
    fault expected = fault::race;  // of planted ones
};

// What both kinds of programs begin with.
struct two_streams {
    explicit two_streams(simulated_driver& cuda)
        : a(cuda.non_blocking()),
          b(cuda.non_blocking()),
          x(cuda.malloc()),
          y(cuda.malloc()),
          pinned(cuda.malloc_host()) {}
    simulated_driver::stream a, b;
    simulated_driver::memory x, y, pinned;
};

const program planted[] = {
    {"a_kernel_reads_what_another_stream_writes",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         cuda.launch("make", on.a, {writes(on.x)});
         cuda.launch("use", on.b, {reads(on.x), writes(on.y)});
     }},
    {"a_kernel_writes_what_another_stream_reads",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         cuda.launch("use", on.a, {reads(on.x)});
         cuda.launch("make", on.b, {writes(on.x)});
     }},
    {"two_kernels_write_the_same",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         cuda.launch("one", on.a, {writes(on.x)});
         cuda.launch("other", on.b, {writes(on.x)});
     }},
    {"an_upload_and_a_kernel_of_another_stream",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         cuda.copy_async(on.x, on.pinned, on.a);
         cuda.launch("use", on.b, {reads(on.x)});
     }},
    {"a_kernel_and_a_download_by_another_stream",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         cuda.launch("make", on.a, {writes(on.x)});
         cuda.copy_async(on.pinned, on.x, on.b);
     }},
    {"a_fill_and_a_kernel_at_an_address_within",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         cuda.fill_async(on.x, on.a);
         cuda.launch("use", on.b, {reads(on.x + 1024)});
     }},
    {"copies_whose_ranges_overlap",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         cuda.copy_async(on.x, on.pinned, on.a, 1024);
         cuda.copy_async(on.x + 1023, on.y, on.b, 1024);
     }},
    {"columns_that_overlap",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         cuda.copy_rows(on.x, on.y, on.a, 65, 8, 128, 65);
         cuda.copy_rows(on.x + 64, on.y, on.b, 64, 8, 128, 64);
     }},
    {"an_event_that_is_recorded_too_early",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         const auto done = cuda.create_event();
         cuda.record(done, on.a);
         cuda.launch("make", on.a, {writes(on.x)});
         cuda.wait(on.b, done);
         cuda.launch("use", on.b, {reads(on.x)});
     }},
    {"a_wait_after_the_use",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         const auto done = cuda.create_event();
         cuda.launch("make", on.a, {writes(on.x)});
         cuda.record(done, on.a);
         cuda.launch("use", on.b, {reads(on.x)});
         cuda.wait(on.b, done);
     }},
    {"the_wrong_stream_is_synchronised",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         cuda.launch("make", on.a, {writes(on.x)});
         cuda.synchronize(on.b);
         cuda.launch("use", on.b, {reads(on.x)});
     }},
    {"a_non_blocking_stream_and_the_default_stream",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         const auto legacy = cuda.legacy();
         cuda.launch("make", on.a, {writes(on.x)});
         cuda.launch("use", legacy, {reads(on.x)});
     }},
    {"a_synchronous_fill_of_device_memory",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         cuda.fill(on.x, cuda.legacy());  // does not wait
         cuda.launch("use", on.a, {reads(on.x)});
     }},
    {"a_synchronous_copy_on_the_device",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         cuda.copy(on.x, on.y, cuda.legacy());  // does not wait
         cuda.launch("use", on.a, {reads(on.x)});
     }},
    {"a_synchronous_upload_of_pageable_memory",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         cuda.copy(on.x, cuda.pageable(), cuda.legacy());  // staged: the last part may not have arrived
         cuda.launch("use", on.a, {reads(on.x)});
     }},
    {"a_write_to_what_a_download_still_reads",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         cuda.copy_async(on.pinned, on.x, on.a);
         cuda.launch("next", on.b, {writes(on.x)});
     }},
    {"streams_of_two_devices",
     [](simulated_driver& cuda) {
         const auto here = cuda.create_stream("blocking", 0), there = cuda.create_stream("blocking", 1);
         const auto x = cuda.malloc(), y = cuda.malloc(4096, "device", 1);
         cuda.launch("make", here, {writes(x)});
         cuda.copy_async(y, x, there);
     }},
    {"the_wrong_device_is_synchronised",
     [](simulated_driver& cuda) {
         const auto here = cuda.create_stream("blocking", 0), there = cuda.create_stream("blocking", 1);
         const auto x = cuda.malloc();
         cuda.launch("make", here, {writes(x)});
         cuda.synchronize_device(1);
         cuda.launch("use", there, {reads(x)});
     }},
    {"an_event_that_is_recorded_again_elsewhere",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         const auto c = cuda.non_blocking();
         const auto done = cuda.create_event();
         cuda.launch("make", on.a, {writes(on.x)});
         cuda.record(done, on.a);
         cuda.record(done, c);
         cuda.wait(on.b, done);
         cuda.launch("use", on.b, {reads(on.x)});
     },
     fault::event_recorded_again},
    {"a_wait_before_the_record",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         const auto done = cuda.create_event();
         cuda.wait(on.b, done);
         cuda.launch("use", on.b, {reads(on.y)});
         cuda.record(done, on.a);
     },
     fault::wait_without_record},
    {"a_wait_before_the_record_after_the_first_turn_of_a_loop",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         const auto done = cuda.create_event();
         cuda.wait(on.b, done);
         cuda.synchronize_event(done);
         cuda.record(done, on.a);
         cuda.wait(on.b, done);
     },
     fault::wait_without_record},
    {"the_host_waits_for_an_event_without_a_record",
     [](simulated_driver& cuda) { cuda.synchronize_event(cuda.create_event()); }, fault::wait_without_record},
    {"the_host_reads_before_the_download_is_complete",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         cuda.copy_async(on.pinned, on.x, on.a);
         cuda.host_reads(on.pinned);
     },
     fault::early_read},
    {"the_host_writes_before_the_upload_is_complete",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         cuda.copy_async(on.x, on.pinned, on.a);
         cuda.host_writes(on.pinned);
     },
     fault::early_write},
    {"the_host_reads_managed_memory_that_a_kernel_writes",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         const auto shared = cuda.malloc_managed();
         cuda.launch("make", on.a, {writes(shared)});
         cuda.host_reads(shared);
     },
     fault::early_read},
    {"a_free_in_the_order_of_another_stream",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         const auto z = cuda.malloc_async(on.a);
         cuda.order(on.a, on.b);
         cuda.launch("use", on.b, {reads(z)});
         cuda.free_async(z, on.a);
     },
     fault::use_after_free},
    {"a_kernel_after_the_free",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         const auto z = cuda.malloc_async(on.a);
         cuda.free_async(z, on.a);
         cuda.launch("use", on.a, {reads(z)});
     },
     fault::use_after_free},
    {"a_second_free",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         const auto z = cuda.malloc_async(on.a);
         cuda.free_async(z, on.a);
         cuda.free_async(z, on.a);
     },
     fault::use_after_free},
    {"a_free_while_another_device_reads",
     [](simulated_driver& cuda) {
         const auto there = cuda.create_stream("blocking", 1);
         const auto x = cuda.malloc(), y = cuda.malloc(4096, "device", 1);
         cuda.copy_async(y, x, there);
         cuda.free(x);  // waits for device 0
     },
     fault::use_after_free},
    {"memory_that_is_reused_while_it_is_read",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         const auto z = cuda.malloc_async(on.a);
         cuda.order(on.a, on.b);
         cuda.launch("use", on.b, {reads(z)});
         cuda.free_async(z, on.a);
         cuda.malloc_async_at(z, on.a);
     },
     fault::reuse},
    {"memory_that_is_used_before_its_allocation",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         const auto z = cuda.malloc_async(on.a);
         cuda.launch("use", on.b, {writes(z)});
     }},
    {"a_fork_that_no_stream_joins",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         cuda.begin_capture(on.a);
         cuda.launch("first", on.a, {writes(on.x)});
         cuda.order(on.a, on.b);
         cuda.launch("second", on.b, {writes(on.y)});
         cuda.end_capture(on.a, true);
     },
     fault::dropped_by_capture},
    {"a_capture_that_fails",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         cuda.begin_capture(on.a);
         cuda.launch("first", on.a, {writes(on.x)});
         cuda.end_capture(on.a, true);
     },
     fault::dropped_by_capture},
    {"a_batch_of_copies_that_a_capture_refuses",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         cuda.begin_capture(on.a);
         cuda.launch("first", on.a, {writes(on.x)});
         cuda.copy_refused(on.y, on.pinned, on.a);
         cuda.end_capture(on.a);
     },
     fault::dropped_by_capture},
    {"a_stream_that_was_not_forked_into_the_capture",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         cuda.begin_capture(on.a);
         cuda.launch("first", on.a, {writes(on.x)});
         cuda.launch("second", on.b, {writes(on.y)});
         cuda.end_capture(on.a);
     },
     fault::outside_capture},
    {"branches_of_a_capture_that_write_the_same",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         cuda.begin_capture(on.a);
         cuda.order(on.a, on.b);
         cuda.launch("one", on.a, {writes(on.x)});
         cuda.launch("other", on.b, {writes(on.x)});
         cuda.order(on.b, on.a);
         cuda.instantiate(cuda.end_capture(on.a));
     }},
    {"nodes_without_an_edge",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         const auto graph = cuda.create_graph();
         cuda.kernel_node(graph, "make", {writes(on.x)});
         cuda.kernel_node(graph, "use", {reads(on.x)});
         cuda.instantiate(graph);
     }},
    {"a_launch_of_a_graph_and_a_kernel_of_another_stream",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         const auto graph = cuda.create_graph();
         cuda.kernel_node(graph, "make", {writes(on.x)});
         cuda.launch_graph(cuda.instantiate(graph), on.a);
         cuda.launch("use", on.b, {reads(on.x)});
     }},
    {"launches_of_two_graphs_that_write_the_same",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         const auto one = cuda.create_graph(), other = cuda.create_graph();
         cuda.kernel_node(one, "one", {writes(on.x)});
         cuda.kernel_node(other, "other", {writes(on.x)});
         cuda.launch_graph(cuda.instantiate(one), on.a);
         cuda.launch_graph(cuda.instantiate(other), on.b);
     }},
};

const program clean[] = {
    {"an_event_orders_two_streams",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         cuda.launch("make", on.a, {writes(on.x)});
         cuda.order(on.a, on.b);
         cuda.launch("use", on.b, {reads(on.x)});
     }},
    {"two_streams_read_the_same",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         cuda.launch("use", on.a, {reads(on.x)});
         cuda.launch("use", on.b, {reads(on.x)});
         cuda.copy_async(on.pinned, on.x, on.b);
     }},
    {"the_default_stream_waits_for_blocking_streams",
     [](simulated_driver& cuda) {
         const auto legacy = cuda.legacy(), a = cuda.create_stream(), b = cuda.create_stream();
         const auto x = cuda.malloc();
         cuda.launch("one", a, {writes(x)});
         cuda.launch("two", legacy, {writes(x)});
         cuda.launch("three", b, {writes(x)});
     }},
    {"one_event_is_used_again_and_again",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         const auto done = cuda.create_event();
         for (int i = 0; i < 3; ++i) {
             cuda.launch("make", on.a, {writes(on.x)});
             cuda.record(done, on.a);
             cuda.wait(on.b, done);
             cuda.launch("use", on.b, {reads(on.x)});
             cuda.record(done, on.b);
             cuda.wait(on.a, done);
         }
     }},
    {"cuda_free_waits_for_the_device",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         cuda.launch("make", on.a, {writes(on.x)});
         cuda.free(on.x);
         cuda.launch("use", on.b, {reads(on.y)});
     }},
    {"memory_is_handed_out_again_after_cuda_free",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         const auto z = cuda.malloc_async(on.a);
         cuda.launch("make", on.a, {writes(z)});
         cuda.free(z);
         cuda.malloc_async_at(z, on.b);
         cuda.launch("make", on.b, {writes(z)});
     }},
    {"a_synchronous_download_to_pageable_memory",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         cuda.launch("make", on.a, {writes(on.x)});
         cuda.copy_async(cuda.pageable(), on.x, on.a);  // returns when it is complete
         cuda.launch("next", on.b, {writes(on.x)});
     }},
    {"a_synchronous_download_to_pinned_memory",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         cuda.copy(on.pinned, on.x, cuda.legacy());
         cuda.host_reads(on.pinned);
     }},
    {"a_pageable_source_is_written_at_once",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         const auto source = cuda.pageable();
         cuda.copy_async(on.x, source, on.a);  // staged before the call returns
         cuda.host_writes(source);
     }},
    {"a_query_has_seen_the_end",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         const auto done = cuda.create_event();
         cuda.copy_async(on.pinned, on.x, on.a);
         cuda.record(done, on.a);
         cuda.query_done(done);
         cuda.host_reads(on.pinned);
     }},
    {"a_query_of_a_stream_has_seen_the_end",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         cuda.copy_async(on.x, on.pinned, on.a);
         cuda.stream_done(on.a);
         cuda.host_writes(on.pinned);
     }},
    {"another_thread_has_waited",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         cuda.copy_async(on.pinned, on.x, on.a);
         cuda.on_thread(2);
         cuda.synchronize(on.a);
         cuda.on_thread(1);
         cuda.host_reads(on.pinned);
     }},
    {"a_wait_is_passed_on",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         const auto c = cuda.non_blocking();
         cuda.launch("make", on.a, {writes(on.x)});
         cuda.order(on.a, c);
         cuda.order(c, on.b);
         cuda.launch("use", on.b, {reads(on.x)});
     }},
    {"an_allocator_puts_tensors_into_one_block",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         cuda.launch("one", on.a, {writes(on.x)});
         cuda.launch("other", on.b, {writes(on.x + 512)});
     }},
    {"columns_next_to_each_other",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         cuda.copy_rows(on.x, on.y, on.a, 64, 8, 128, 64);
         cuda.copy_rows(on.x + 64, on.y, on.b, 64, 8, 128, 64);
     }},
    {"ranges_next_to_each_other",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         cuda.copy_async(on.x, on.y, on.a, 2048);
         cuda.copy_async(on.x + 2048, on.y, on.b, 2048);
     }},
    {"a_stream_frees_after_the_other_has_read",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         const auto z = cuda.malloc_async(on.a);
         cuda.order(on.a, on.b);
         cuda.launch("use", on.b, {reads(z)});
         cuda.order(on.b, on.a);
         cuda.free_async(z, on.a);
     }},
    {"a_pool_hands_out_memory_of_another_stream",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         const auto z = cuda.malloc_async(on.a);
         cuda.launch("use", on.a, {writes(z)});
         cuda.free_async(z, on.a);
         cuda.malloc_async_at(z, on.b);  // the pool orders it after the free
         cuda.launch("use", on.b, {writes(z)});
     }},
    {"a_loop_waits_for_an_event_that_its_first_turn_has_not_recorded",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         const auto host = cuda.create_event(), stream = cuda.create_event();
         for (int i = 0; i < 2; ++i) {
             cuda.synchronize_event(host);
             cuda.wait(on.b, stream);
             cuda.launch("use", on.b, {reads(on.x)});
             cuda.record(host, on.b);
             cuda.record(stream, on.b);
         }
         cuda.destroy_event(host);
     }},
    {"a_captured_fork_is_joined",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         cuda.begin_capture(on.a);
         cuda.launch("make", on.a, {writes(on.x)});
         cuda.order(on.a, on.b);
         cuda.launch("use", on.b, {reads(on.x), writes(on.y)});
         cuda.order(on.b, on.a);
         cuda.launch("end", on.a, {writes(on.x), writes(on.y)});
         const auto exec = cuda.instantiate(cuda.end_capture(on.a));
         cuda.launch_graph(exec, on.a);
         cuda.launch_graph(exec, on.b);  // launches of one graph follow each other
     }},
    {"a_capture_starts_where_other_work_runs",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         cuda.launch("before", on.b, {writes(on.x)});
         cuda.begin_capture(on.a);
         cuda.launch("later", on.a, {writes(on.x)});
         cuda.end_capture(on.a);  // never launched
     }},
    {"another_thread_works_during_a_capture",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         cuda.begin_capture(on.a);
         cuda.on_thread(2);
         cuda.launch("its_own", on.b, {writes(on.y)});
         cuda.on_thread(1);
         cuda.end_capture(on.a);
     }},
    {"edges_of_a_graph",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         const auto graph = cuda.create_graph();
         const auto first = cuda.kernel_node(graph, "make", {writes(on.x)});
         const auto second = cuda.kernel_node(graph, "use", {reads(on.x)});
         const auto third = cuda.kernel_node(graph, "again", {writes(on.x)}, {second});
         cuda.add_edge(graph, first, second);
         cuda.launch_graph(cuda.instantiate(graph), on.a);
         static_cast<void>(third);
     }},
    {"a_destroyed_stream_was_waited_for",
     [](simulated_driver& cuda) {
         const two_streams on(cuda);
         for (int i = 0; i < 3000; ++i) {  // more than there may be at a time
             const auto passing = cuda.non_blocking();
             cuda.launch("make", passing, {writes(on.x)});
             cuda.synchronize(passing);
             cuda.destroy_stream(passing);
         }
         cuda.launch("use", on.b, {reads(on.x)});
     }},
    {"two_devices_in_order",
     [](simulated_driver& cuda) {
         const auto here = cuda.create_stream("blocking", 0), there = cuda.create_stream("blocking", 1);
         const auto x = cuda.malloc(), y = cuda.malloc(4096, "device", 1);
         cuda.launch("make", here, {writes(x)});
         cuda.order(here, there);
         cuda.copy_async(y, x, there);
         cuda.synchronize_device(1);
         cuda.free(x);
     }},
};

std::vector<std::string> kinds_of(const check_report& report) {
    std::vector<std::string> kinds;
    for (const finding& each : report.findings) kinds.emplace_back(to_string(each.what));
    return kinds;
}

}  // namespace

TEST(planted_programs, are_found_by_what_is_wrong_with_them) {
    for (const program& each : planted) {
        SCOPED_TRACE(each.name);
        simulated_driver cuda;
        each.run(cuda);
        const check_report report = cuda.check();
        EXPECT_THAT(kinds_of(report), ::testing::Contains(std::string(to_string(each.expected))));
        // Apart from what follows from the mistake: memory that is freed too early is reused too early as well.
        EXPECT_EQ(report.findings.size(), each.expected == fault::reuse ? 2u : 1u);
        for (const finding& found : report.findings) EXPECT_NE(found.second.call, 0u);
    }
    EXPECT_GE(std::size(planted), 30u);
}

TEST(clean_programs, give_no_finding) {
    for (const program& each : clean) {
        SCOPED_TRACE(each.name);
        simulated_driver cuda;
        each.run(cuda);
        const check_report report = cuda.check({.may = true});
        EXPECT_THAT(kinds_of(report), ::testing::IsEmpty()) << report.findings.front().message;
    }
    EXPECT_GE(std::size(clean), 15u);
}

TEST(arguments_of_kernels, that_are_not_known_to_be_written_give_findings_with_may_only) {
    simulated_driver cuda;
    const two_streams on(cuda);
    cuda.launch("one", on.a, {touches(on.x)});
    cuda.launch("other", on.b, {touches(on.x)});
    EXPECT_THAT(kinds_of(cuda.check()), ::testing::IsEmpty());
    EXPECT_EQ(cuda.check().uncertain, 1u);
    EXPECT_THAT(kinds_of(cuda.check({.may = true})), ::testing::ElementsAre("race"));
}

TEST(pinned_memory, that_is_uploaded_again_gives_a_finding_with_may_unless_the_host_has_waited) {
    simulated_driver cuda;
    const two_streams on(cuda);
    cuda.copy_async(on.x, on.pinned, on.a);
    cuda.copy_async(on.x, on.pinned, on.a);
    EXPECT_THAT(kinds_of(cuda.check()), ::testing::IsEmpty());
    EXPECT_THAT(kinds_of(cuda.check({.may = true})), ::testing::ElementsAre("early write"));
    simulated_driver waiting;
    const two_streams then(waiting);
    waiting.copy_async(then.x, then.pinned, then.a);
    waiting.synchronize(then.a);
    waiting.copy_async(then.x, then.pinned, then.a);
    EXPECT_THAT(kinds_of(waiting.check({.may = true})), ::testing::IsEmpty());
}

TEST(hints, are_waits_after_which_no_more_is_known) {
    simulated_driver cuda;
    const two_streams on(cuda);
    cuda.launch("one", on.a, {writes(on.x)});
    cuda.synchronize(on.a);
    EXPECT_EQ(cuda.check().hints, 0u);
    cuda.synchronize(on.a);
    EXPECT_EQ(cuda.check().hints, 1u);
    EXPECT_THAT(kinds_of(cuda.check({.hints = true})), ::testing::ElementsAre("useless wait"));
}

}  // namespace sluice::check::planted_tests

// SPDX-License-Identifier: Apache-2.0
// Streams and events of other code: Sluice's operations on a stream that it did not create, and order between the two
// through events, eagerly and in graphs.
#include <atomic>
#include <string>
#include <thread>

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "conformance/kernels.hpp"
#include "cuda/api/commands.hpp"
#include "cuda/api/graph.hpp"
#include "cuda/api/runtime.hpp"
#include "sluice/cuda/foreign_streams.hpp"
#include "sluice/cuda/lending.hpp"

namespace sluice::conformance::foreign_stream_tests {
namespace {

namespace api = cuda::api;

class foreign_streams : public testing::Test {
protected:
    foreign_streams() {
        sync(upload(std::vector<unsigned>(4)).and_then([](auto x) { return step(std::move(x), 1); }), own);
    }

    // Enqueues host code on their stream, as other code does.
    void on_theirs(std::function<void()>& what) {
        api::call_host(theirs.get(), [](void* erased) { (*static_cast<std::function<void()>*>(erased))(); }, &what, {});
    }

    runtime owner;
    device& gpu = owner.find("cuda:0");
    round_robin own{gpu, 3};
    api::stream_handle theirs = [&] {
        const api::device_scope scope(0);
        return api::create_stream(0);
    }();
    api::event_handle event = [&] {
        const api::device_scope scope(0);
        return api::create_event(api::event_use::ordering);
    }();
};

std::vector<unsigned> stepped(unsigned from) { return std::vector<unsigned>(4, after_steps(from, 1)); }
auto one_step(tensor<unsigned> x) { return step(std::move(x), 0); }
auto say(std::string* text, char letter) {
    return host_call([text, letter] { text->push_back(letter); });
}

}  // namespace

TEST_F(foreign_streams, operations_run_on_it) {
    cuda::foreign_stream pool(gpu, theirs.get());
    EXPECT_EQ(pool.next().native().handle, theirs.get());
    EXPECT_EQ(sync(full<unsigned>({4}, 5).and_then(one_step).and_then(download), pool), stepped(5));
}

TEST_F(foreign_streams, what_others_enqueue_there_is_in_order) {
    std::string text;
    std::function<void()> first = [&] { text += 'a'; }, third = [&] { text += 'c'; };
    cuda::foreign_stream pool(gpu, theirs.get());
    on_theirs(first);
    auto second = spawn(say(&text, 'b'), pool);
    on_theirs(third);
    api::synchronize(theirs.get());
    EXPECT_EQ(text, "abc");
}

TEST_F(foreign_streams, data_is_in_order_with_streams_of_sluice) {
    cuda::foreign_stream pool(gpu, theirs.get());
    for (int round = 0; round < 50; ++round) {
        auto x = spawn(full<unsigned>({4}, 5).and_then(one_step), pool).get();
        auto y = spawn(one_step(std::move(x)), own).get();
        EXPECT_EQ(sync(one_step(std::move(y)).and_then(download), pool), std::vector<unsigned>(4, 135));
    }
}

TEST_F(foreign_streams, the_policy_waits_for_its_commands_and_the_stream_can_go) {
    std::size_t queues = 0;
    for (int round = 0; round < 50; ++round) {
        const api::device_scope scope(0);
        const api::stream_handle another = api::create_stream(0);
        std::atomic<bool> ran{false};
        {
            cuda::foreign_stream pool(gpu, another.get());
            spawn(host_call([&ran] {
                      std::this_thread::sleep_for(std::chrono::milliseconds(1));
                      ran = true;
                  }),
                  pool);
        }
        EXPECT_TRUE(ran);
        if (round == 0) queues = gpu.all_queues().size();
    }
    EXPECT_EQ(gpu.all_queues().size(), queues) << "the queue of a stream that is gone is used again";
    gpu.synchronize();
}

TEST_F(foreign_streams, default_streams_may_be_used) {
    for (CUstream_st* const each : {static_cast<CUstream_st*>(nullptr), reinterpret_cast<CUstream_st*>(1)}) {
        cuda::foreign_stream pool(gpu, each);
        EXPECT_EQ(sync(full<unsigned>({4}, 5).and_then(one_step).and_then(download), pool), stepped(5));
    }
}

// Sluice's streams are non-blocking: a held legacy default stream does not hold them, and does not wait for them.
TEST_F(foreign_streams, work_of_sluice_passes_a_held_default_stream) {
    NEEDS_A_GATE();
    auto x = sync(full<unsigned>({4}, 5), own);
    sync(full<unsigned>({4}, 5).and_then(one_step).and_then(download), own);  // fills the pools
    std::atomic<bool> open{false};
    std::function<void()> hold = [&] {
        while (!open) std::this_thread::yield();
    };
    const api::device_scope scope(0);
    api::call_host(nullptr, [](void* erased) { (*static_cast<std::function<void()>*>(erased))(); }, &hold, {});
    auto passing = spawn(one_step(std::move(x)), own);
    EXPECT_TRUE(passing.wait_for(std::chrono::seconds(30)));
    EXPECT_EQ(api::query(static_cast<CUstream_st*>(nullptr)), api::not_ready);
    open = true;
    api::synchronize(static_cast<CUstream_st*>(nullptr));
    auto made = std::move(passing).get();
    EXPECT_EQ(sync(download(std::move(made)), own), stepped(5));
}

TEST_F(foreign_streams, the_stream_of_each_thread_is_refused) {
    expect_refused(errc::unsupported, {"cudaStreamPerThread"},
                   [&] { cuda::foreign_stream pool(gpu, reinterpret_cast<CUstream_st*>(2)); });
}

// The queue of a stream that is gone has waited for another stream; the next one has not.
TEST_F(foreign_streams, a_stream_that_comes_later_makes_its_own_waits) {
    NEEDS_A_GATE();
    const stream home = own.next();
    gate closed(home);
    {
        cuda::foreign_stream pool(gpu, theirs.get());
        pool.next().order_after(home.point(home.issued()));
    }
    const api::device_scope scope(0);
    const api::stream_handle another = api::create_stream(0);
    cuda::foreign_stream pool(gpu, another.get());
    std::atomic<bool> ran{false};
    pool.next().order_after(home.point(home.issued()));
    auto after = spawn(host_call([&ran] { ran = true; }), pool);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(ran);
    closed.open();
    std::move(after).get();
}

TEST_F(foreign_streams, graphs_are_launched_on_it) {
    cuda::foreign_stream pool(gpu, theirs.get());
    const auto fast = compile(
        gpu, [](tensor<unsigned> x) { return one_step(std::move(x)).and_then(download); }, host_input<unsigned>({4}));
    for (unsigned i = 0; i < 50; ++i) EXPECT_EQ(sync(fast(std::vector<unsigned>(4, i)), pool), stepped(i));
}

TEST_F(foreign_streams, lent_memory_is_complete_for_their_work) {
    NEEDS_A_GATE();
    const stream home = own.next();
    gate closed(home);
    execution_context context(home);
    const tensor<unsigned> x = full<unsigned>({4}, 5).submit(context);  // after the gate
    storage* const memory[] = {x.memory()};
    cuda::lend_to(own.next(), theirs.get(), memory);
    std::atomic<bool> ran{false};
    std::function<void()> after = [&] { ran = true; };
    on_theirs(after);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(ran);
    closed.open();
    api::synchronize(theirs.get());
    EXPECT_TRUE(ran);
}

TEST_F(foreign_streams, memory_that_is_taken_back_is_used_after_their_work) {
    tensor<unsigned> x = sync(full<unsigned>({4}, 5), own), other = sync(full<unsigned>({4}, 6), own);
    storage* const memory[] = {x.memory()};
    const stream between = own.next();
    cuda::lend_to(between, theirs.get(), memory);
    std::atomic<bool> may_end{false};
    std::function<void()> slow = [&] {
        while (!may_end) std::this_thread::yield();
    };
    on_theirs(slow);
    cuda::take_back_from(between, theirs.get(), memory);
    auto later = spawn(one_step(std::move(x)), own);
    // What was not lent does not wait for them: on a stream that has no command after the taken memory.
    single_stream apart(gpu);
    static_cast<void>(sync(one_step(std::move(other)), apart));
    EXPECT_FALSE(later.wait_for(std::chrono::seconds(0)));
    may_end = true;
    auto made = std::move(later).get();
    EXPECT_EQ(sync(value(std::move(made)).and_then(download), own), stepped(5));
}

TEST_F(foreign_streams, lending_to_the_stream_of_each_thread_is_refused) {
    const tensor<unsigned> x = sync(full<unsigned>({4}, 5), own);
    storage* const memory[] = {x.memory()};
    auto* const each_thread = reinterpret_cast<CUstream_st*>(2);
    expect_refused(errc::unsupported, {"lend_to", "cudaStreamPerThread"},
                   [&] { cuda::lend_to(own.next(), each_thread, memory); });
    device& cpu = owner.find("cpu:0");
    single_stream elsewhere(cpu);
    expect_refused(errc::unsupported, {"take_back_from", "for GPUs"},
                   [&] { cuda::take_back_from(elsewhere.next(), theirs.get(), {}); });
}

TEST_F(foreign_streams, a_stream_that_is_captured_is_refused) {
    const api::device_scope scope(0);
    const auto graph = api::create_graph();
    const auto adopt = [&] { cuda::foreign_stream pool(gpu, theirs.get()); };
    api::capture(graph.get(), {}, theirs.get(),
                 [&] { expect_refused(errc::invalid_argument, {"cuda:0", "captured"}, adopt); }, {});
    cuda::foreign_stream pool(gpu, theirs.get());
    EXPECT_EQ(sync(full<unsigned>({4}, 5).and_then(one_step).and_then(download), pool), stepped(5));
}

TEST_F(foreign_streams, a_cpu_device_has_none) {
    device& cpu = owner.find("cpu:0");
    expect_refused(errc::unsupported, {"cpu:0", "CPU"}, [&] { cuda::foreign_stream pool(cpu, theirs.get()); });
    single_stream pool(cpu);
    expect_refused(errc::unsupported, {"cpu:0", "GPUs"}, [&] { sync(cuda::wait_for(event.get()), pool); });
}

TEST_F(foreign_streams, a_null_event_is_refused) {
    expect_refused(errc::invalid_argument, {"wait_for_event", "null"},
                   [&] { sync(cuda::wait_for(static_cast<CUevent_st*>(nullptr)), own); });
    expect_refused(errc::invalid_argument, {"record_event", "null"}, [&] { sync(cuda::record(nullptr), own); });
}

TEST_F(foreign_streams, an_operation_waits_for_their_event) {
    NEEDS_A_GATE();
    std::atomic<bool> open{false}, ran{false};
    std::function<void()> hold = [&] {
        while (!open) std::this_thread::yield();
    };
    on_theirs(hold);
    {
        const api::device_scope scope(0);
        api::record(event.get(), theirs.get());
    }
    auto waiting = spawn(cuda::wait_for(event.get()).then(host_call([&ran] { ran = true; })), own);
    auto also = spawn(cuda::wait_for(theirs.get()).then(host_call([&ran] { ran = true; })), own);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_FALSE(ran);
    open = true;
    std::move(waiting).get();
    std::move(also).get();
    EXPECT_TRUE(ran);
}

TEST_F(foreign_streams, their_stream_waits_for_an_event_of_ours) {
    NEEDS_A_GATE();
    std::atomic<bool> open{false};
    auto held = spawn(host_call([&open] {
                          while (!open) std::this_thread::yield();
                      }).then(cuda::record(event.get())),
                      own);
    const api::device_scope scope(0);
    api::wait(theirs.get(), event.get());
    EXPECT_EQ(api::query(theirs.get()), api::not_ready);
    open = true;
    api::synchronize(theirs.get());
    std::move(held).get();
}

TEST_F(foreign_streams, a_graph_waits_for_events_and_records_them_at_each_launch) {
    const api::device_scope scope(0);
    const api::event_handle after = api::create_event(api::event_use::ordering);
    const auto fast = compile(
        gpu,
        [&](tensor<unsigned> x) {
            return cuda::wait_for(event.get()).then(one_step(std::move(x))).and_then([&](auto y) {
                shared_tensor<unsigned> kept(std::move(y));
                return value(kept).then(cuda::record(after.get())).then(download(kept));
            });
        },
        host_input<unsigned>({4}));
    for (unsigned i = 0; i < 20; ++i) {
        std::atomic<bool> open{false};
        std::function<void()> hold = [&] {
            while (!open) std::this_thread::yield();
        };
        on_theirs(hold);
        api::record(event.get(), theirs.get());
        auto launched = spawn(fast(std::vector<unsigned>(4, i)), own);
        if (i < 3) std::this_thread::sleep_for(std::chrono::milliseconds(10));
        EXPECT_FALSE(launched.is_ready());
        open = true;
        EXPECT_EQ(std::move(launched).get(), stepped(i));
        EXPECT_EQ(api::query(after.get()), api::success);
    }
}

TEST_F(foreign_streams, an_update_of_a_graph_takes_another_event) {
    using output = pending<std::vector<unsigned>>;
    const api::device_scope scope(0);
    const api::event_handle other = api::create_event(api::event_use::ordering);
    const auto after = [](CUevent_st* which) {
        return std::function<any_operation<output>(tensor<unsigned>)>([which](tensor<unsigned> x) {
            return any_operation<output>(cuda::wait_for(which).then(one_step(std::move(x))).and_then(download));
        });
    };
    const auto fast = compile(gpu, after(event.get()), host_input<unsigned>({4}));
    unsigned round = 0;
    for (CUevent_st* const which : {event.get(), other.get(), event.get()}) {
        fast.update(after(which));
        std::atomic<bool> open{false};
        std::function<void()> hold = [&] {
            while (!open) std::this_thread::yield();
        };
        on_theirs(hold);
        api::record(which, theirs.get());
        auto launched = spawn(fast(std::vector<unsigned>(4, ++round)), own);
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        EXPECT_FALSE(launched.is_ready()) << "the graph waits for the other event, which has passed";
        open = true;
        EXPECT_EQ(std::move(launched).get(), stepped(round));
        api::synchronize(theirs.get());
    }
}

TEST_F(foreign_streams, a_graph_refuses_to_wait_for_a_stream) {
    expect_refused(errc::graph_refused, {"wait_for_stream", "event"},
                   [&] { compile(gpu, [&] { return cuda::wait_for(theirs.get()); }); });
}

}  // namespace sluice::conformance::foreign_stream_tests

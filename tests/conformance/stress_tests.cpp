// SPDX-License-Identifier: Apache-2.0
// Several host threads submit to shared policies at once. Their results must be correct, and a thread sanitizer must
// report nothing.
#include <numeric>
#include <thread>

#include "conformance/backend.hpp"
#include "conformance/kernels.hpp"
#include "sluice/kernels/elementwise.hpp"

namespace sluice::conformance::stress_tests {
namespace {

using numbers = std::vector<unsigned>;

class stress : public conformance_test {
protected:
    static constexpr unsigned threads = 4;

    template <typename Function>
    static void on_all_threads(Function f) {
        std::vector<std::jthread> all;
        for (unsigned id = 0; id < threads; ++id) all.emplace_back([f, id] { f(id); });
    }
};
INSTANTIATE_TEST_SUITE_P(, stress, testing::ValuesIn(enrolled_backends()), backend_name);

}  // namespace

TEST_P(stress, threads_share_a_policy) {
    round_robin pool(on, 3);
    const std::size_t before = bytes_in_use();
    on_all_threads([&](unsigned id) {
        for (unsigned i = 0; i < 250; ++i) {
            const std::size_t size = 1 + (id * 37 + i * 101) % 3000;
            const unsigned start = id * 1000 + i;
            auto operation = zip(full<unsigned>({size}, start), share(full<unsigned>({size}, 5)))
                                 .and_then([](auto x, auto w) { return add(w, std::move(x)); })
                                 .and_then([](auto x) { return step(std::move(x), 1); })
                                 .and_then(download);
            ASSERT_EQ(sluice::sync(std::move(operation), pool), numbers(size, 3 * (start + 5) + 1));
        }
    });
    EXPECT_EQ(bytes_in_use(), before);
}

TEST_P(stress, threads_share_a_stream_and_each_keeps_its_order) {
    constexpr unsigned count = 200;
    single_stream pool(on);
    const stream home = pool.next();
    std::vector<numbers> called(threads);
    on_all_threads([&](unsigned id) {
        auto x = submit_to(home, full<unsigned>({300}, id));
        for (unsigned i = 0; i < count; ++i) {
            step_on(home, x, i);
            home.host_call({"note"}, {[&called, id, i] { called[id].push_back(i); }});
        }
        EXPECT_EQ(contents(std::move(x), home), numbers(300, after_steps(id, count)));
    });
    on.synchronize();
    numbers in_order(count);
    std::iota(in_order.begin(), in_order.end(), 0u);
    for (const numbers& each : called) EXPECT_EQ(each, in_order);
}

TEST_P(stress, threads_read_one_shared_tensor) {
    round_robin pool(on, 4);
    const auto weight = sync(share(full<unsigned>({500}, 11)), pool);
    on_all_threads([&, weight](unsigned id) {
        std::vector<device_future<pending<numbers>>> window;
        for (unsigned i = 0; i < 200; ++i) {
            auto operation =
                full<unsigned>({500}, id + i).and_then([weight](auto x) { return add(weight, std::move(x)); });
            window.push_back(spawn(std::move(operation).and_then(download), pool));
            if (window.size() < 8) continue;
            ASSERT_EQ(std::move(window.front()).get(), numbers(500, 11 + id + i - 7));
            window.erase(window.begin());
        }
    });
}

TEST_P(stress, threads_lease_and_return_streams) {
    on_all_threads([&](unsigned id) {
        for (unsigned i = 0; i < 100; ++i) {
            round_robin mine(on, 1 + i % 3);
            auto future = spawn(full<unsigned>({100}, id).and_then([](auto x) { return step(std::move(x), 2); }), mine);
            if (i % 2 == 0) continue;
            ASSERT_EQ(contents(std::move(future).get(), mine.next()), numbers(100, 3 * id + 2));
        }
    });
}

TEST_P(stress, threads_pass_a_tensor_on) {
    round_robin pool(on, 4);
    std::mutex mutex;
    auto x = sync(full<unsigned>({300}, 0), pool);
    unsigned taken = 0;
    on_all_threads([&](unsigned) {
        for (;;) {
            const std::lock_guard lock(mutex);
            if (taken == 1000) return;
            step_on(pool.next(), x, taken++);
        }
    });
    EXPECT_EQ(contents(std::move(x), pool.next()), numbers(300, after_steps(0, 1000)));
}

TEST_P(stress, threads_trim_while_others_work) {
    round_robin pool(on, 2);
    on_all_threads([&](unsigned id) {
        for (unsigned i = 0; i < 100; ++i) {
            if (id == 0) {
                on.trim();
            } else {
                ASSERT_EQ(sync(full<unsigned>({1000 * id}, i).and_then(download), pool), numbers(1000 * id, i));
            }
        }
    });
}

}  // namespace sluice::conformance::stress_tests

// SPDX-License-Identifier: Apache-2.0
// In each of several scenarios, every allocation, and every move of a user's function or value, fails once. The waiter
// gets the right value or that failure, nothing leaks, and the device works as before.
//
// This executable has its own operator new, which fails on request and counts. Memory that is still allocated after a
// scenario has leaked. (Under the address sanitizer the leak checker looks, too.)
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <new>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "faults/faulty_backend.hpp"
#include "sluice/kernels/elementwise.hpp"
#include "sluice/sluice.hpp"

namespace {

std::atomic<long> allocations_left{-1};  // before one fails; below 0 none fails
std::atomic<long> living{0};

void* allocate(std::size_t bytes, std::size_t alignment) noexcept {
    if (allocations_left.load(std::memory_order_relaxed) >= 0 && allocations_left.fetch_sub(1) == 0) return nullptr;
    void* const made = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (made != nullptr) living.fetch_add(1, std::memory_order_relaxed);
    return made;
}
void* allocate_or_throw(std::size_t bytes, std::size_t alignment) {
    if (void* const made = allocate(bytes == 0 ? 1 : bytes, alignment)) return made;
    throw std::bad_alloc();
}
void give_back(void* data) noexcept {
    if (data != nullptr) living.fetch_sub(1, std::memory_order_relaxed);
    std::free(data);
}
constexpr std::size_t usual = alignof(std::max_align_t);

}  // namespace

void* operator new(std::size_t bytes) { return allocate_or_throw(bytes, usual); }
void* operator new[](std::size_t bytes) { return allocate_or_throw(bytes, usual); }
void* operator new(std::size_t bytes, std::align_val_t to) {
    return allocate_or_throw(bytes, static_cast<std::size_t>(to));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes, usual); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes, usual); }
void operator delete(void* data) noexcept { give_back(data); }
void operator delete[](void* data) noexcept { give_back(data); }
void operator delete(void* data, std::size_t) noexcept { give_back(data); }
void operator delete[](void* data, std::size_t) noexcept { give_back(data); }
void operator delete(void* data, std::align_val_t) noexcept { give_back(data); }
void operator delete(void* data, std::size_t, std::align_val_t) noexcept { give_back(data); }

namespace sluice::failure_walk_tests {
namespace {

using namespace std::chrono_literals;
using numbers = std::vector<float>;

struct move_failed : std::runtime_error {
    move_failed() : std::runtime_error("moved badly") {}
};
// Counts down with each move and copy, and throws at 0; functions of the scenarios capture one.
class fragile {
public:
    fragile() = default;
    fragile(const fragile&) { count(); }
    fragile(fragile&&) { count(); }  // NOLINT(performance-noexcept-move-constructor): it throws on purpose
    fragile& operator=(const fragile&) = default;
    fragile& operator=(fragile&&) = default;
    ~fragile() = default;

    static inline std::atomic<long> moves_left{-1};

private:
    static void count() {
        if (moves_left.load(std::memory_order_relaxed) >= 0 && moves_left.fetch_sub(1) == 0) throw move_failed();
    }
};

// A value that a move leaves empty.
class number {
public:
    explicit number(int n) : n_(n) {}
    number(number&& other) : breaks_(std::move(other.breaks_)), n_(std::exchange(other.n_, -1)) {}
    int get() const { return n_; }

private:
    fragile breaks_;
    int n_;
};

auto uploaded(float first) { return upload(numbers{first, -1, 2}); }
auto positive() {
    return [breaks = fragile()](auto x) { return relu(std::move(x)); };
}
auto chain(float first) { return uploaded(first).and_then(positive()).and_then(download); }
numbers chained(float first) { return {first, 0, 2}; }
// Fails on the device the first time only.
auto fails_once(int& attempts) {
    return [breaks = fragile(), &attempts] {
        const bool fails = attempts++ == 0;
        return host_call([breaks, fails] {
            if (fails) throw std::runtime_error("planned");
            return number(3);
        });
    };
}

task<numbers> awaited(round_robin& pool, thread_pool& threads) {
    auto first = spawn(chain(1), pool);
    auto second = spawn(chain(2), pool);
    numbers all = co_await std::move(first);
    auto there = std::move(second).resume_on(threads);
    const numbers more = co_await there;
    all.insert(all.end(), more.begin(), more.end());
    co_return all;
}
task<int> awaited_retry(round_robin& pool, int& attempts) {
    auto future = spawn(retry(3, fails_once(attempts)), pool);
    const number made = co_await std::move(future);
    co_return made.get();
}

class failure_walk : public testing::Test {
protected:
    using scenario = std::function<void(runtime&, round_robin&)>;
    // Returns whether the scenario succeeded. It may throw only the planted failure.
    template <typename Failure>
    static bool goes_well(const scenario& call, runtime& owner, round_robin& pool, bool& threw_another) {
        try {
            call(owner, pool);
            return true;
        } catch (const Failure&) {
        } catch (const error& refusal) {
            threw_another = refusal.code() != errc::out_of_memory;
        } catch (...) {
            threw_another = true;
        }
        return false;
    }

    template <typename Failure>
    static void walk(std::atomic<long>& left, const scenario& call, std::size_t devices = 1) {
        constexpr int most = 3000;
        const runtime_options options{.cpu_devices = devices, .cpu_workers = 1, .cuda = false};
        {
            runtime owner(options);
            round_robin pool(owner.default_device(), 2);
            call(owner, pool);  // afterwards all objects that are created only once exist
        }
        for (int n = 0; n < most; ++n) {
            const long before = living;
            bool is_over = false, threw_another = false;
            {
                runtime owner(options);
                round_robin pool(owner.default_device(), 2);
                left = n;
                const bool went_well = goes_well<Failure>(call, owner, pool, threw_another);
                is_over = left.exchange(-1) >= 0;
                for (device* const each : owner.devices()) each->synchronize();
                EXPECT_TRUE(went_well || !is_over) << n;
                EXPECT_FALSE(threw_another) << n;
                call(owner, pool);
            }
            ASSERT_EQ(living, before) << "a leak at " << n;
            if (is_over) return;
        }
        ADD_FAILURE() << "the scenario never succeeds";
    }
    static void walk_all(const std::function<void(round_robin&)>& on_pool) {
        const scenario call = [&](runtime&, round_robin& pool) { on_pool(pool); };
        walk<std::bad_alloc>(allocations_left, call);
        if (!HasFailure()) walk<move_failed>(fragile::moves_left, call);
    }
};

TEST_F(failure_walk, a_chain) {
    walk_all([](round_robin& pool) { EXPECT_EQ(sync(chain(1), pool), chained(1)); });
}

TEST_F(failure_walk, concurrent_parts) {
    walk_all([](round_robin& pool) {
        const auto [first, second, third] = sync(zip(chain(1), chain(2), value(number(3))), pool);
        EXPECT_EQ(first, chained(1));
        EXPECT_EQ(second, chained(2));
        EXPECT_EQ(third.get(), 3);
    });
}

TEST_F(failure_walk, shared_operations) {
    walk_all([](round_robin& pool) {
        auto all = share(value(number(4)));
        auto more = all;
        const auto [first, second] = sync(zip(std::move(all), std::move(more)), pool);
        EXPECT_EQ(first->get(), 4);
        EXPECT_EQ(second->get(), 4);
        auto result = share(host_call([breaks = fragile()] { return number(5); }));
        EXPECT_EQ(sync(share_operation(result), pool)->get(), 5);
        EXPECT_EQ(sync(std::move(result), pool)->get(), 5);
    });
}

TEST_F(failure_walk, unzipped_operations) {
    walk_all([](round_robin& pool) {
        auto [first, second] = unzip(zip(chain(1), value(number(2))));
        EXPECT_EQ(sync(std::move(second), pool).get(), 2);
        EXPECT_EQ(sync(std::move(first), pool), chained(1));
    });
}

TEST_F(failure_walk, a_retry) {
    walk_all([](round_robin& pool) {
        int attempts = 0;
        EXPECT_EQ(sync(retry(3, fails_once(attempts)), pool).get(), 3);
    });
}

TEST_F(failure_walk, a_recovery) {
    walk_all([](round_robin& pool) {
        auto fails = host_call([breaks = fragile()]() -> number { throw std::runtime_error("planned"); });
        auto recovered = std::move(fails).or_else(
            [breaks = fragile()](const std::exception_ptr&) { return host_call([] { return number(6); }); });
        EXPECT_EQ(sync(std::move(recovered), pool).get(), 6);
    });
}

TEST_F(failure_walk, a_deadline_that_is_not_reached) {
    walk_all([](round_robin& pool) {
        EXPECT_EQ(sync(timeout(chain(1), 24h), pool), chained(1));
        EXPECT_EQ(spawn(timeout(chain(2), 24h), pool).get(), chained(2));
    });
}

TEST_F(failure_walk, a_stop_that_is_not_requested) {
    walk_all([](round_robin& pool) {
        std::stop_source stop;
        int attempts = 0;
        EXPECT_EQ(sync(stop_when(retry(3, fails_once(attempts)), stop.get_token()), pool).get(), 3);
    });
}

TEST_F(failure_walk, concurrent_host_driven_operations) {
    walk_all([](round_robin& pool) {
        int first_attempts = 0, second_attempts = 0;
        auto both = zip(retry(3, fails_once(first_attempts)), retry(3, fails_once(second_attempts)));
        const auto [first, second] = sync(std::move(both), pool);
        EXPECT_EQ(first.get() + second.get(), 6);
    });
}

TEST_F(failure_walk, dropped_host_driven_operations) {
    walk_all([](round_robin& pool) {
        int attempts = 0;
        const auto dropped = spawn(timeout(retry(3, fails_once(attempts)), 24h), pool);
    });
}

TEST_F(failure_walk, a_download_to_the_users_memory) {
    walk_all([](round_robin& pool) {
        auto room = std::make_shared<numbers>(3);
        const std::span<float> to(*room);
        const owned_span<float> filled =
            sync(uploaded(1).and_then(positive()).and_then(download_to(to, std::move(room))), pool);
        EXPECT_EQ(numbers(filled.begin(), filled.end()), chained(1));
    });
}

TEST_F(failure_walk, a_coroutine) {
    walk_all([](round_robin& pool) {
        thread_pool threads(1);
        EXPECT_EQ(sync_wait(awaited(pool, threads)), (numbers{1, 0, 2, 2, 0, 2}));
        int attempts = 0;
        EXPECT_EQ(sync_wait(awaited_retry(pool, attempts)), 3);
    });
}

TEST_F(failure_walk, all_of_several_futures) {
    walk_all([](round_robin& pool) {
        auto both = when_all(spawn(chain(1), pool), spawn(chain(2), pool));
        const auto [first, second] = sync_wait(std::move(both));
        EXPECT_EQ(first, chained(1));
        EXPECT_EQ(second, chained(2));
    });
}

TEST_F(failure_walk, parts_of_a_tensor) {
    walk_all([](round_robin& pool) {
        auto halves = zeros<float>({1000})
                          .transform([](auto x) { return split<2>(std::move(x)); })
                          .and_then([](auto low, auto high) {
                              return zip(upload_to(std::move(low), std::vector<float>(512, 1)),
                                         upload_to(std::move(high), std::vector<float>(488, 2)));
                          })
                          .transform([](auto low, auto high) {
                              const shared_tensor<float> whole(join(std::move(low), std::move(high)));
                              return slice(whole, 448, 128);
                          })
                          .and_then(download);
        EXPECT_EQ(sync(std::move(halves), pool)[64], 2);
    });
}

// One command that uses the memory of more devices than a queue has room for at first.
TEST_F(failure_walk, a_command_that_uses_the_memory_of_many_devices) {
    constexpr std::size_t devices = 12;
    const auto sum = [](runtime& owner, round_robin&) {
        const communicator all(device_set::of(owner, "cpu"));
        round_robin_devices pool(all.devices(), 1);
        auto parts = on_each(all.devices(), [](std::size_t rank) { return uploaded(float(rank)); });
        auto summed = std::move(parts)
                          .and_then([all](auto each) { return all_reduce(all, reduce_op::sum, std::move(each)); })
                          .and_then([](auto each) { return download(std::move(each.front())); });
        EXPECT_EQ(sync(std::move(summed), pool), (numbers{66, -12, 24}));
    };
    walk<std::bad_alloc>(allocations_left, sum, devices);
}

TEST_F(failure_walk, a_compiled_graph) {
    walk_all([](round_robin& pool) {
        auto compiled = compile(
            pool, [breaks = fragile()](tensor<float> x) { return relu(std::move(x)).and_then(download); },
            host_input<float>({3}));
        EXPECT_EQ(sync(compiled(numbers{1, -1, 2}), pool), chained(1));
        EXPECT_EQ(sync(compiled(numbers{3, -1, 2}), pool), chained(3));
    });
}

// The completion thread passes a fault on to the devices that depend on the lost one: without memory of its own.
TEST_F(failure_walk, a_fault_that_another_device_depends_on) {
    for (int n = 0;; ++n) {
        ASSERT_LT(n, 100) << "there is no end of allocations";
        faults::faulty_runtime fakes;
        const device_set both{fakes.on, fakes.other};
        round_robin_devices pool{both, 2};
        fakes.first.works.hold();
        const auto needs = spawn(on_device(fakes.on, full<unsigned>({100}, 1)).and_then(copy_to(fakes.other)), pool);
        const auto why = std::make_exception_ptr(std::runtime_error("broken"));
        allocations_left = n;
        fakes.on.poison(why);
        const auto limit = std::chrono::steady_clock::now() + 10s;
        while (!fakes.other.is_poisoned() && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
        const bool is_over = allocations_left.exchange(-1) >= 0;
        EXPECT_TRUE(fakes.other.is_poisoned()) << n;
        if (is_over) return;
    }
}

}  // namespace
}  // namespace sluice::failure_walk_tests

// SPDX-License-Identifier: Apache-2.0
// Tensors over memory of resources, and pools as resources, on a CPU device.
#include "sluice/runtime/memory_resource.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <memory_resource>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "conformance/expect_refused.hpp"
#include "sluice/sluice.hpp"

namespace sluice::memory_resource_tests {
namespace {

using conformance::expect_refused;

// Counts what is allocated, and checks that it goes back with the same size and alignment.
class counting_resource final : public std::pmr::memory_resource {
public:
    std::size_t live_bytes() const { return live_; }
    std::size_t calls() const { return calls_; }

private:
    void* do_allocate(std::size_t bytes, std::size_t alignment) override {
        ++calls_;
        live_ += bytes + alignment;
        return ::operator new(bytes, std::align_val_t(alignment));
    }
    void do_deallocate(void* data, std::size_t bytes, std::size_t alignment) override {
        live_ -= bytes + alignment;
        ::operator delete(data, std::align_val_t(alignment));
    }
    bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

    std::atomic<std::size_t> live_{0};
    std::atomic<std::size_t> calls_{0};
};

// As a resource of CCCL 3.1: allocate() takes a stream.
struct synchronous_only {
    void* allocate_sync(std::size_t bytes, std::size_t alignment) {
        ++live;
        return ::operator new(bytes, std::align_val_t(alignment));
    }
    void deallocate_sync(void* data, std::size_t, std::size_t alignment) {
        --live;
        ::operator delete(data, std::align_val_t(alignment));
    }
    std::atomic<int> live{0};
};

// Its memory begins 4 bytes too far.
struct misaligned {
    void* allocate(std::size_t bytes, std::size_t alignment) {
        ++live;
        return static_cast<std::byte*>(::operator new(bytes + 4, std::align_val_t(alignment))) + 4;
    }
    void deallocate(void* data, std::size_t, std::size_t alignment) {
        --live;
        ::operator delete(static_cast<std::byte*>(data) - 4, std::align_val_t(alignment));
    }
    int live = 0;
};

static_assert(any_memory_resource<std::pmr::memory_resource> && any_memory_resource<synchronous_only>);
static_assert(!any_memory_resource<std::allocator<float>>);

class memory_resources : public testing::Test {
protected:
    runtime machine;
    device& cpu = machine.find("cpu");
    single_stream pool{cpu};

    void wait_for_releases(const counting_resource& of) {
        while (of.live_bytes() != 0) std::this_thread::yield();
    }
};

TEST_F(memory_resources, a_tensor_is_over_memory_of_a_resource_and_gives_it_back) {
    counting_resource theirs;
    {
        tensor<float> x = allocate_from<float>(cpu, theirs, {4, 8});
        EXPECT_EQ(theirs.calls(), 1u);
        EXPECT_GE(theirs.live_bytes(), 4u * 8 * sizeof(float));
        const float* const data = x.device_data();
        x = sync(fill(std::move(x), 3.f), pool);
        x = sync(scale(std::move(x), 2.f), pool);
        EXPECT_EQ(x.device_data(), data);
        EXPECT_EQ(sync(download(std::move(x)), pool), std::vector<float>(32, 6.f));
    }
    wait_for_releases(theirs);
    EXPECT_EQ(theirs.calls(), 1u);
}

TEST_F(memory_resources, a_tensor_dropped_while_commands_use_it_keeps_its_memory_until_they_are_complete) {
    counting_resource theirs;
    std::atomic<bool> may_end{false};
    tensor<float> x = sync(fill(allocate_from<float>(cpu, theirs, {8}), 1.f), pool);
    const auto wait_at_gate = [gate = &may_end](const native_stream&, float*) {
        while (!*gate) std::this_thread::yield();
    };
    auto running = spawn(native_call(wait_at_gate, std::move(x)).transform([](auto dropped) { dropped = {}; }), pool);
    EXPECT_NE(theirs.live_bytes(), 0u);
    may_end = true;
    std::move(running).get();
    wait_for_releases(theirs);
}

TEST_F(memory_resources, what_the_device_cannot_use_goes_back_at_once) {
    misaligned theirs;
    expect_refused(errc::invalid_argument, {"4 bytes after a multiple of 16"},
                   [&] { allocate_from<float>(cpu, theirs, {8}); });
    EXPECT_EQ(theirs.live, 0);
}

TEST_F(memory_resources, a_resource_that_has_no_more_memory_says_so_itself) {
    EXPECT_THROW(allocate_from<float>(cpu, *std::pmr::null_memory_resource(), {8}), std::bad_alloc);
}

TEST_F(memory_resources, a_shape_of_too_many_bytes_reaches_no_resource) {
    counting_resource theirs;
    EXPECT_THROW(allocate_from<double>(cpu, theirs, {SIZE_MAX / 4}), out_of_memory);
    EXPECT_THROW(allocate_from<float>(cpu, theirs, shape::none()), error);
    EXPECT_EQ(theirs.calls(), 0u);
}

TEST_F(memory_resources, no_elements_are_fine) {
    counting_resource theirs;
    {
        const tensor<float> x = allocate_from<float>(cpu, theirs, {0, 4});
        EXPECT_EQ(x.size(), 0u);
    }
    wait_for_releases(theirs);
}

TEST_F(memory_resources, a_resource_whose_allocate_takes_a_stream_allocates_synchronously) {
    synchronous_only theirs;
    EXPECT_EQ(sync(fill(allocate_from<float>(cpu, theirs, {8}), 1.f).and_then(download), pool),
              std::vector<float>(8, 1.f));
    while (theirs.live != 0) std::this_thread::yield();
}

// --- the other direction ---------------------------------------------------------------------------------------------

TEST_F(memory_resources, containers_are_in_memory_of_a_pool) {
    const std::size_t before = cpu.host_pool().usage().in_use_bytes;
    host_memory_resource ours(cpu);
    {
        std::pmr::vector<std::pmr::string> words(&ours);
        for (int i = 0; i < 100; ++i)
            words.emplace_back("a string that is too long for its own place " + std::to_string(i));
        EXPECT_EQ(words[99], "a string that is too long for its own place 99");
        EXPECT_GT(cpu.host_pool().usage().in_use_bytes, before + 100 * 40);
    }
    EXPECT_EQ(cpu.host_pool().usage().in_use_bytes, before);
}

TEST_F(memory_resources, memory_is_aligned_as_it_was_asked_for) {
    host_memory_resource ours(cpu);
    for (const std::size_t alignment : {1, 64, 256, 512, 4096, 65536}) {
        void* const data = ours.allocate(10, alignment);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % alignment, 0u) << alignment;
        ours.deallocate(data, 10, alignment);
    }
}

TEST_F(memory_resources, memory_that_went_back_is_used_again) {
    host_memory_resource ours(cpu);
    void* const first = ours.allocate(1000);
    ours.deallocate(first, 1000);
    const std::size_t calls = cpu.host_pool().usage().source_calls;
    void* const second = ours.allocate(1000);
    EXPECT_EQ(second, first);
    EXPECT_EQ(cpu.host_pool().usage().source_calls, calls);
    ours.deallocate(second, 1000);
}

TEST_F(memory_resources, an_address_of_elsewhere_is_refused) {
    host_memory_resource ours(cpu);
    int x = 0;
    expect_refused(errc::invalid_argument, {"not of memory of this resource"}, [&] { ours.deallocate(&x, sizeof x); });
    void* const data = ours.allocate(8);
    ours.deallocate(data, 8);
    expect_refused(errc::invalid_argument, {"deallocated before"}, [&] { ours.deallocate(data, 8); });
}

TEST_F(memory_resources, too_much_memory_is_refused) {
    host_memory_resource ours(cpu);
    const volatile std::size_t too_many = SIZE_MAX - 10;  // g++ 14 warns of a constant
    EXPECT_THROW(static_cast<void>(ours.allocate(too_many, 4096)), out_of_memory);
}

TEST_F(memory_resources, a_resource_equals_itself_only) {
    const host_memory_resource one(cpu), other(cpu);
    EXPECT_TRUE(one.is_equal(one));
    EXPECT_FALSE(one.is_equal(other));
}

TEST_F(memory_resources, a_container_becomes_a_tensor_and_both_directions_meet) {
    const std::size_t before = cpu.host_pool().usage().in_use_bytes;
    host_memory_resource ours(cpu);
    auto all = std::make_shared<std::pmr::vector<float>>(64, 2.f, &ours);
    tensor<float> x = adopt(cpu, all->data(), {64}, all);
    EXPECT_EQ(sync(scale(std::move(x), 2.f).and_then(download), pool), std::vector<float>(64, 4.f));

    tensor<float> y = allocate_from<float>(cpu, ours, {8});
    EXPECT_EQ(sync(fill(std::move(y), 1.f).and_then(download), pool), std::vector<float>(8, 1.f));
    all.reset();
    // The resource lives until the completion thread has released both.
    while (cpu.host_pool().usage().in_use_bytes != before) std::this_thread::yield();
}

TEST(memory_resource, memory_outlives_the_runtime) {
    std::optional<runtime> machine(std::in_place);
    host_memory_resource ours(machine->find("cpu"));
    std::pmr::vector<int> numbers(1000, 7, &ours);
    machine.reset();
    EXPECT_EQ(numbers[999], 7);
}

}  // namespace
}  // namespace sluice::memory_resource_tests

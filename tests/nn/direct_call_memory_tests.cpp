// SPDX-License-Identifier: Apache-2.0
// A network that answers at once allocates no memory once it knows the shapes. This executable counts allocations.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "nn/small_models.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"

namespace {
std::atomic<std::size_t> allocations{0};
}

namespace {

// Not inline: g++ takes the pair of malloc and free in one function for a mistake.
[[gnu::noinline]] void* allocate(std::size_t bytes) noexcept {
    ++allocations;
    return std::malloc(bytes != 0 ? bytes : 1);
}
void* allocate_or_throw(std::size_t bytes) {
    if (void* const made = allocate(bytes)) return made;
    throw std::bad_alloc();
}
[[gnu::noinline]] void give_back(void* data) noexcept { std::free(data); }

}  // namespace

void* operator new(std::size_t bytes) { return allocate_or_throw(bytes); }
void* operator new[](std::size_t bytes) { return allocate_or_throw(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
void operator delete(void* data) noexcept { give_back(data); }
void operator delete[](void* data) noexcept { give_back(data); }
void operator delete(void* data, std::size_t) noexcept { give_back(data); }
void operator delete[](void* data, std::size_t) noexcept { give_back(data); }

namespace sluice::nn::direct_call_memory_tests {

using namespace test_support;

TEST(direct_call_memory, none_is_allocated_from_the_third_call_on) {
    model from;
    from.path = "layers.onnx";
    from.opsets = {{"", 17}};
    from.body.inputs = {f32("x", {named("rows"), of(2)})};
    from.body.outputs = {f32("y", {named("rows"), of(2)})};
    from.body.constants = {{"w", tensor_of<float>({1, 2, 3, 4}, {2, 2})}};
    from.body.nodes = {make_node("MatMul", {"x", "w"}, {"a"}), make_node("Relu", {"a"}, {"b"}),
                       make_node("Exp", {"b"}, {"y"})};
    runtime machine({.cpu_workers = 1, .cuda = false});
    single_stream on(machine.find("cpu:0"));
    const network made = sync(make_network(std::move(from)), on);
    const std::vector<float> x{0, 0};
    std::vector<float> y(2);
    std::size_t before = 0;
    for (int i = 0; i < 10; ++i) {
        if (i == 2) before = allocations;
        made({{x, {1, 2}}}, {{y, {1, 2}}});
    }
    EXPECT_EQ(allocations - before, 0u);
    EXPECT_GT(before, 0u);
    EXPECT_EQ(y, (std::vector<float>{1, 1}));
}

}  // namespace sluice::nn::direct_call_memory_tests

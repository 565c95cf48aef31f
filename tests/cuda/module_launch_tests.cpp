// SPDX-License-Identifier: Apache-2.0
// A launch of a module's function: the limits, the layout of the parameters, and the devices that refuse it.
#include <gmock/gmock.h>

#include "conformance/expect_refused.hpp"
#include "runtime/graph_difference.hpp"
#include "sluice/cuda/kernel_module.hpp"
#include "sluice/sluice.hpp"

namespace sluice::module_launch_tests {
namespace {

using conformance::expect_refused;
using testing::ElementsAre;

detail::checked_function function_with_limits() {
    detail::checked_function made;
    made.limits = {.max_threads = 512,
                   .max_block = {1024, 1024, 64},
                   .max_grid = {2147483647, 65535, 65535},
                   .max_shared_bytes = 100'000};
    return made;
}

bool checked(const launch_blocks& over) {
    return detail::check_launch(function_with_limits(), over, {"saxpy", "cuda:0", over.location});
}
void expect_refusal(const launch_blocks& over, std::initializer_list<std::string> words) {
    expect_refused(errc::invalid_argument, words, [&] { static_cast<void>(checked(over)); });
}

// A function that looks loaded on another device.
std::shared_ptr<const loaded_function> loaded_elsewhere() {
    static constexpr std::size_t offsets[] = {0};
    auto made = std::make_shared<loaded_function>();
    made->name = "saxpy";
    made->device = "cuda:7";
    made->offsets = offsets;
    return made;
}

auto launch_of(tensor<float> x) {
    return with_context([x = std::move(x)](execution_context& context) mutable {
        float* const data = x.device_data();
        const std::array accesses{memory_access{x.memory(), access_mode::write}};
        launch_command command;
        command.closure = &data;
        command.closure_bytes = sizeof(data);
        const auto function = loaded_elsewhere();
        command.function = function.get();
        context.stream().launch({"saxpy", accesses}, command);
        return std::move(x);
    });
}

}  // namespace

TEST(module_launches, within_the_limits_pass) {
    EXPECT_TRUE(checked(blocks(1, 1)));
    EXPECT_TRUE(checked(blocks(2147483647, 512, 100'000)));
    EXPECT_TRUE(checked(blocks({1, 65535, 65535}, {8, 8, 8})));
}

TEST(module_launches, without_blocks_have_nothing_to_submit) {
    EXPECT_FALSE(checked(blocks(0, 256)));
    EXPECT_FALSE(checked(blocks({4, 0, 4}, {32})));
    EXPECT_FALSE(checked(blocks_over(0, 256)));
}

TEST(module_launches, beyond_a_limit_are_refused_with_the_limit) {
    expect_refusal(blocks(1, 513), {"saxpy on cuda:0", "513 threads", "512"});
    expect_refusal(blocks(1, 2048), {"2048 x 1 x 1", "1024 x 1024 x 64"});
    expect_refusal(blocks({1}, {1, 1, 65}), {"1 x 1 x 65", "1024 x 1024 x 64"});
    expect_refusal(blocks({1}, {65535, 65535, 65535}), {"65535 x 65535 x 65535"});
    expect_refusal(blocks({1, 65536}, {1}), {"1 x 65536 x 1 blocks", "2147483647 x 65535 x 65535"});
    expect_refusal(blocks(1, 32, 100'001), {"100001 bytes", "100000"});
    expect_refusal(blocks({1}, {32, 0, 1}), {"32 x 0 x 1", "no threads"});
}

TEST(module_launches, blocks_over_covers_each_index) {
    EXPECT_EQ(blocks_over(1, 256).grid.x, 1u);
    EXPECT_EQ(blocks_over(256, 256).grid.x, 1u);
    EXPECT_EQ(blocks_over(257, 256).grid.x, 2u);
    EXPECT_EQ(blocks_over(257, 256).block.x, 256u);
    expect_refused(errc::invalid_argument, {"at least one thread"}, [] { blocks_over(1, 0); });
    expect_refused(errc::invalid_argument, {"2^32 - 1"}, [] { blocks_over(~std::size_t{0}, 256); });
}

TEST(module_launches, parameters_are_laid_out_as_in_a_struct) {
    struct in_order {
        char a;
        float b;
        const float* c;
        char d;
        view<const int> e;
        short f;
    };
    using block = detail::parameter_block<char, float, detail::read_address<float>, char, view<const int>, short>;
    EXPECT_THAT(block::offsets, ElementsAre(offsetof(in_order, a), offsetof(in_order, b), offsetof(in_order, c),
                                            offsetof(in_order, d), offsetof(in_order, e), offsetof(in_order, f)));
    EXPECT_THAT(block::sizes, ElementsAre(1u, 4u, 8u, 1u, 16u, 2u));
    EXPECT_EQ(block::bytes, offsetof(in_order, f) + sizeof(short));
}

TEST(module_launches, views_arrive_as_structures_of_an_address_and_sizes) {
    static_assert(sizeof(view<const float>) == 16 && sizeof(disjoint_view<float>) == 16);
    static_assert(sizeof(matrix_view<const float>) == 24 && sizeof(disjoint_matrix<float>) == 24);
    runtime machine({.cuda = false});
    single_stream pool(machine.find("cpu"));
    const tensor<float> x = sync(zeros<float>({2, 3}), pool);
    using call = detail::module_call<detail::type_list<int, matrix_view<const float>, detail::written_address<float>>,
                                     int, tensor<float>, tensor<float>>;
    static_assert(call::passed());
    const auto block = call::bind({}, 7, x, x);
    struct {
        int n;
        const float* data;
        std::size_t rows, columns;
        float* written;
    } received{};
    static_assert(sizeof(received) == decltype(block)::bytes);
    std::memcpy(&received, block.data(), sizeof(received));
    EXPECT_EQ(received.n, 7);
    EXPECT_EQ(received.data, x.device_data());
    EXPECT_EQ(received.rows, 2u);
    EXPECT_EQ(received.columns, 3u);
    EXPECT_EQ(received.written, x.device_data());
}

TEST(module_launches, on_a_cpu_device_are_refused_before_anything_is_submitted) {
    runtime machine({.cuda = false});
    single_stream pool(machine.find("cpu"));
    const ticket before = pool.next().issued();
    expect_refused(errc::unsupported, {"saxpy on cpu:0", "GPUs only", "cuda:7"},
                   [&] { sync(zeros<float>({4}).and_then([](auto x) { return launch_of(std::move(x)); }), pool); });
    EXPECT_LE(pool.next().issued(), before + 1);  // the zeros
}

TEST(module_launches, in_a_graph_of_a_cpu_device_are_refused) {
    runtime machine({.cuda = false});
    expect_refused(errc::unsupported, {"saxpy on cpu:0", "GPUs only"}, [&] {
        compile(machine.find("cpu"), [](tensor<float> x) { return launch_of(std::move(x)); }, device_input<float>({4}));
    });
}

TEST(module_launches, in_the_simulator_are_refused) {
    sim::simulator machine;
    expect_refused(errc::unsupported, {"saxpy on sim:0", "GPUs only"}, [&] {
        sync(zeros<float>({4}).and_then([](auto x) { return launch_of(std::move(x)); }), machine.pool());
    });
}

TEST(module_launches, of_one_function_that_was_looked_up_twice_are_the_same) {
    static constexpr std::size_t one[] = {0}, two[] = {0, 8};
    int first = 0, second = 0;
    const auto graph_of = [](void* handle, std::span<const std::size_t> offsets) {
        auto function = std::make_shared<loaded_function>();
        function->handle = handle;
        function->offsets = offsets;
        launch_command command;
        command.function = function.get();
        command_graph made;
        made.nodes.push_back({command, "saxpy", {}, {}, {}, {}, {}});
        made.nodes.back().function = std::move(function);
        return made;
    };
    const command_graph graph = graph_of(&first, one);
    EXPECT_TRUE(detail::compare(graph, graph_of(&first, one)).is_same());
    EXPECT_THAT(detail::compare(graph, graph_of(&second, one)).changed, ElementsAre(0u));
    EXPECT_THAT(detail::compare(graph, graph_of(&first, two)).changed, ElementsAre(0u));
    command_graph plain = graph_of(&first, one);
    std::get<launch_command>(plain.nodes[0].what).function = nullptr;
    EXPECT_THAT(detail::compare(graph, plain).changed, ElementsAre(0u));
}

TEST(modules_without_a_gpu, are_refused_by_each_entry_point) {
    runtime machine({.cuda = false});
    device& cpu = machine.find("cpu");
    const std::array<std::byte, 4> bytes{};
    expect_refused(errc::unsupported, {"load_module", "cpu:0", "GPUs only"}, [&] { load_module(cpu, "saxpy.ptx"); });
    expect_refused(errc::unsupported, {"load_module", "cpu:0", "GPUs only"}, [&] { load_module(cpu, bytes); });
    expect_refused(errc::unsupported, {"compile_module", "cpu:0", "GPUs only"}, [&] { compile_module(cpu, ""); });
}

}  // namespace sluice::module_launch_tests

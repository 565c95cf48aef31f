// SPDX-License-Identifier: Apache-2.0
// What a compiled graph says about itself: why it was instantiated again, which nodes are enabled, whether it is being
// recorded; and its upload.
#include "conformance/expect_refused.hpp"
#include "graph/graph_operations.hpp"

namespace sluice::conformance::graph_inquiry_tests {
namespace {

CONFORMANCE_SUITE(graph_inquiries);

auto named_step(const char* name, tensor<unsigned> x, unsigned addend) {
    return named(name, step(std::move(x), addend));
}

// One step for each addend, named "step 0" and so on.
any_function steps(std::vector<unsigned> addends) {
    return any([addends](tensor<unsigned> x) {
        any_operation<tensor<unsigned>> all = value(std::move(x));
        for (std::size_t i = 0; i < addends.size(); ++i) {
            all = std::move(all).and_then([name = "step " + std::to_string(i), addend = addends[i]](auto y) {
                return named(name, step(std::move(y), addend));
            });
        }
        return std::move(all).and_then(download);
    });
}

bool contains(const std::string& text, const std::string& word) { return text.find(word) != std::string::npos; }

}  // namespace

TEST_P(graph_inquiries, an_update_that_is_refused_says_why_and_names_the_node) {
    single_stream pool(on);
    const auto fast = compile(on, steps({1}), host_input<unsigned>({1}));
    EXPECT_EQ(fast.why_instantiated(), "");
    EXPECT_EQ(fast.update(steps({5})), graph_change::parameters);
    EXPECT_EQ(fast.why_instantiated(), "");

    EXPECT_EQ(fast.update(steps({5, 6})), graph_change::instantiated);
    EXPECT_TRUE(contains(fast.why_instantiated(), "'step 1'")) << fast.why_instantiated();
    EXPECT_TRUE(contains(fast.why_instantiated(), "nodes and had")) << fast.why_instantiated();
    EXPECT_EQ(sync(fast(std::vector<unsigned>{10}), pool)[0], 3 * 35 + 6u);
    EXPECT_EQ(fast.last_change(), graph_change::none);
    EXPECT_EQ(fast.why_instantiated(), "") << "the latest launch changed nothing";

    EXPECT_EQ(fast.update(steps({5})), graph_change::instantiated);
    EXPECT_TRUE(contains(fast.why_instantiated(), "'step 1'")) << fast.why_instantiated();
}

TEST_P(graph_inquiries, an_update_that_uses_other_memory_names_the_node) {
    single_stream pool(on);
    const auto fast =
        compile(on, any([](tensor<unsigned> x) { return named_step("work", std::move(x), 1).and_then(download); }),
                host_input<unsigned>({1}));
    const auto change =
        fast.update(any([](tensor<unsigned> x) { return named("other", relayed(std::move(x))).and_then(download); }));
    EXPECT_EQ(change, graph_change::instantiated);
    EXPECT_TRUE(contains(fast.why_instantiated(), "'other'")) << fast.why_instantiated();
}

TEST_P(graph_inquiries, nodes_say_whether_they_are_enabled) {
    single_stream pool(on);
    const auto fast = compile(on, {.replicas = 2}, steps({1, 2}), host_input<unsigned>({1}));
    const std::vector<unsigned> x{10};
    EXPECT_TRUE(fast.is_enabled("step 0"));
    EXPECT_TRUE(fast.is_enabled("step 1"));
    fast.disable("step 1");
    EXPECT_TRUE(fast.is_enabled("step 0"));
    EXPECT_FALSE(fast.is_enabled("step 1"));
    EXPECT_EQ(sync(fast(x), pool)[0], 31u);
    EXPECT_FALSE(fast.is_enabled("step 1")) << "a launch enables nothing";
    EXPECT_EQ(fast.update(steps({1, 7})), graph_change::parameters);
    EXPECT_FALSE(fast.is_enabled("step 1")) << "nor does an update of parameters";
    fast.enable("step 1");
    EXPECT_TRUE(fast.is_enabled("step 1"));
    EXPECT_EQ(sync(fast(x), pool)[0], 3 * 31 + 7u);
    fast.disable("step 1");
    EXPECT_EQ(fast.update(steps({1, 2, 3})), graph_change::instantiated);
    EXPECT_TRUE(fast.is_enabled("step 1"));
    expect_refused(errc::graph_refused, {"'step 3'", "no node"}, [&] { fast.is_enabled("step 3"); });
}

TEST_P(graph_inquiries, an_uploaded_graph_runs_as_ever) {
    single_stream pool(on);
    const stream home = pool.next();
    const std::vector<unsigned> x{10};
    const auto fast = compile(on, {.replicas = 2}, steps({1, 2}), host_input<unsigned>({1}));
    fast.upload();
    fast.upload();  // again: nothing to do
    for (int i = 0; i < 3; ++i) EXPECT_EQ(sync(fast(x), pool)[0], 3 * 31 + 2u);
    fast.disable("step 1");
    fast.upload(home);
    EXPECT_EQ(sync(fast(x), pool)[0], 31u);
    EXPECT_EQ(fast.update(steps({4, 5, 6})), graph_change::instantiated);
    fast.upload(home);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(sync(fast(x), pool)[0], 3 * (3 * 34 + 5) + 6u);
}

TEST_P(graph_inquiries, an_upload_is_refused_where_a_launch_would_be) {
    single_stream others(other_device());
    const auto fast = compile(on, steps({1}), host_input<unsigned>({1}));
    expect_refused(errc::invalid_argument, {"cannot be launched on", on.name(), other_device().name()},
                   [&] { fast.upload(others.next()); });
    expect_refused(errc::graph_refused, {"upload"},
                   [&] { record(on, [&](stream recording) { fast.upload(recording); }); });
}

TEST_P(graph_inquiries, a_stream_says_whether_it_is_recorded) {
    single_stream pool(on);
    std::vector<bool> said;
    const auto asks = [&said](tensor<unsigned> x) {
        return with_context([&said, x = std::move(x)](execution_context& context) mutable {
            said.push_back(context.stream().is_recording());
            return step(std::move(x), 1);
        });
    };
    const auto fast = compile(on, asks, device_input<unsigned>({4}));
    EXPECT_GE(said.size(), 2u);
    EXPECT_EQ(said, std::vector<bool>(said.size(), true));
    said.clear();
    const std::vector<unsigned> x(4, 10), expected(4, 31);
    EXPECT_EQ(sluice::sync(upload(x).and_then(asks).and_then(download), pool), expected);
    EXPECT_EQ(said, std::vector<bool>{false});
}

}  // namespace sluice::conformance::graph_inquiry_tests

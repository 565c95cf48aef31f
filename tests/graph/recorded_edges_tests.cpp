// SPDX-License-Identifier: Apache-2.0
// The edges of a compiled graph: one for each reason, none without.
#include <gtest/gtest.h>

#include "sluice/drawing/graph_drawing.hpp"
#include "sluice/sluice.hpp"

namespace sluice::recorded_edges_tests {
namespace {

struct bump {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<int> x) const {
        if (int* const element = x.at(at)) ++*element;
    }
};
struct copy_over {
    SLUICE_KERNEL void operator()(index_1d at, view<const int> from, disjoint_view<int> to) const {
        if (int* const element = to.at(at)) *element = from[at.value()];
    }
};

auto bumped(tensor<int> x) {
    const auto range = each_of(x);
    return launch(bump{}, range, std::move(x));
}
auto copied(shared_tensor<int> from, tensor<int> to) {
    const auto range = each_of(to);
    return launch(copy_over{}, range, std::move(from), std::move(to));
}

class recorded_edges : public ::testing::Test {
protected:
    runtime machine{{.cpu_devices = 1, .cpu_workers = 1, .cuda = false}};
    device& on = machine.find("cpu:0");
};

// "0 <- ; 1 <- 0 read-after-write zeros"
std::string edges_of(const command_graph& graph) {
    std::string text;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
        if (i != 0) text += "; ";
        text.append(graph.nodes[i].name).append(" <-");
        for (const graph_edge& edge : graph.nodes[i].after) {
            text.append(" ").append(graph.nodes[edge.from].name);
            if (edge.reason == edge_reason::stream_order) {
                EXPECT_EQ(edge.memory, graph_edge::no_memory);
                text += " order";
                continue;
            }
            text += edge.reason == edge_reason::read_after_write   ? " raw "
                    : edge.reason == edge_reason::write_after_read ? " war "
                                                                   : " waw ";
            text.append(graph.memory[edge.memory].name);
            if (edge.is_programmatic) text += " early";
        }
    }
    return text;
}

TEST_F(recorded_edges, a_writer_comes_after_the_previous_writer) {
    const auto fast = compile(on, [](tensor<int> x) { return bumped(std::move(x)); }, host_input<int>({4}));
    EXPECT_EQ(edges_of(fast.commands()), "upload <-; bump <- upload waw input");
}

TEST_F(recorded_edges, a_reader_comes_after_the_writer) {
    const auto fast = compile(on, [](tensor<int> x) { return download(std::move(x)); }, host_input<int>({4}));
    EXPECT_EQ(edges_of(fast.commands()), "upload <-; download <- upload raw input");
}

TEST_F(recorded_edges, pieces_of_an_input_are_copied_in_order) {
    const auto fast = compile(
        on, [](std::vector<tensor<int>> x) { return download(std::move(x)); },
        host_input_in_pieces<int>({4, 2}, {3, 1}));
    EXPECT_EQ(edges_of(fast.commands()),
              "upload <-; upload <- upload waw upload order; download <- upload raw input; "
              "download <- upload raw input download waw download");
}

// A writer comes after all readers since the last write, with no further edge from that write.
TEST_F(recorded_edges, a_writer_comes_after_the_readers) {
    const auto fast = compile(
        on,
        [](tensor<int> x, tensor<int> a, tensor<int> b) {
            return with_context(
                [x = std::move(x), a = std::move(a), b = std::move(b)](execution_context& context) mutable {
                    stream to = context.stream();
                    launch_on(to, bump{}, each_of(x), x);
                    launch_on(to, copy_over{}, each_of(a), x, a);
                    launch_on(to, copy_over{}, each_of(b), x, b);
                    launch_on(to, bump{}, each_of(x), x);
                    return std::move(x);
                });
        },
        device_input<int>({4}), device_input<int>({4}), device_input<int>({4}));
    EXPECT_EQ(edges_of(fast.commands()),
              "bump <-; copy_over <- bump raw input; copy_over <- bump raw input; "
              "bump <- copy_over war input copy_over war input");
}

TEST_F(recorded_edges, readers_of_the_same_memory_have_none_between_them) {
    const auto fast = compile(
        on,
        [](shared_tensor<int> x, tensor<int> a, tensor<int> b) {
            return zip(copied(x, std::move(a)), copied(x, std::move(b)));
        },
        shared_input<int>({4}), device_input<int>({4}), device_input<int>({4}));
    EXPECT_EQ(edges_of(fast.commands()), "copy_over <-; copy_over <-");
}

// As on the stream: after all that was submitted before, and before all that comes later.
TEST_F(recorded_edges, a_command_that_shares_no_data_keeps_the_order_of_the_stream) {
    const auto fast = compile(
        on,
        [](tensor<int> x, tensor<int> y) {
            return with_context([x = std::move(x), y = std::move(y)](execution_context& context) mutable {
                stream to = context.stream();
                launch_on(to, bump{}, each_of(x), x);
                launch_on(to, bump{}, each_of(y), y);
                to.host_call({"first"}, {[] {}});
                to.host_call({"second"}, {[] {}});
                launch_on(to, bump{}, each_of(x), x);
                launch_on(to, bump{}, each_of(x), x);
                launch_on(to, bump{}, each_of(y), y);
                to.host_call({"third"}, {[] {}});
                return std::tuple(std::move(x), std::move(y));
            });
        },
        device_input<int>({4}), device_input<int>({4}));
    EXPECT_EQ(edges_of(fast.commands()),
              "bump <-; bump <-; first <- bump order bump order; second <- first order; bump <- bump waw input second "
              "order; bump <- bump waw input; bump <- bump waw input second order; third <- bump order bump order");
}

// As on the stream: who reads the results of a call that failed does not run, who only comes after it does.
TEST_F(recorded_edges, a_command_that_only_comes_after_a_failed_one_runs) {
    bool was_run = false, was_read = false;
    const auto fast = compile(
        on,
        [&](tensor<int> x) {
            return host_call([]() -> int { throw std::runtime_error("the first fails"); })
                .and_then([&](auto one) { return host_call([&](int) { was_read = true; }, std::move(one)); })
                .then(host_call([&] { was_run = true; }))
                .then(bumped(std::move(x)));
        },
        device_input<int>({4}));
    single_stream pool(on);
    EXPECT_THROW(sync(fast(sync(zeros<int>({4}), pool)), pool), std::runtime_error);
    EXPECT_TRUE(was_run);
    EXPECT_FALSE(was_read);
}

// The result of a host call is new memory: it orders what reads it, and not the call itself.
TEST_F(recorded_edges, host_calls_without_arguments_keep_their_order) {
    const auto fast = compile(on, [] {
        return zip(host_call([] { return 1; }), zeros<int>({4}), host_call([] { return 2; }))
            .and_then([](auto one, auto x, auto two) {
                return zip(host_call([](int a, int b) { return a + b; }, std::move(one), std::move(two)),
                           download(std::move(x)));
            });
    });
    EXPECT_EQ(edges_of(fast.commands()),
              "host_call <-; zeros <- host_call order; host_call <- zeros order; host_call <- host_call raw host_call "
              "host_call raw host_call; download <- zeros raw zeros host_call order");
}

TEST_F(recorded_edges, host_calls_with_arguments_keep_their_order_among_each_other) {
    const auto fast = compile(
        on,
        [](tensor<int> x, tensor<int> y) {
            const auto sum = [](auto landed) {
                return host_call([](std::vector<int> all) { return all[0]; }, std::move(landed));
            };
            return zip(download(std::move(x)).and_then(sum), download(std::move(y)).and_then(sum));
        },
        device_input<int>({4}), device_input<int>({4}));
    EXPECT_EQ(edges_of(fast.commands()),
              "download <-; host_call <- download raw download; download <-; host_call <- download raw download "
              "host_call order");
}

// All of the second operation comes after the last commands of the first one, and nothing else does.
TEST_F(recorded_edges, then_orders_without_data) {
    const auto fast = compile(
        on,
        [](tensor<int> a, tensor<int> b, tensor<int> c, tensor<int> d) {
            return zip(bumped(std::move(a)).then(zip(bumped(std::move(b)).and_then(bumped), bumped(std::move(c)))),
                       bumped(std::move(d)));
        },
        device_input<int>({4}), device_input<int>({4}), device_input<int>({4}), device_input<int>({4}));
    EXPECT_EQ(edges_of(fast.commands()),
              "bump <-; bump <- bump order; bump <- bump waw input; bump <- bump order; bump <-");
}

TEST_F(recorded_edges, then_joins_all_branches) {
    const auto fast = compile(
        on,
        [](tensor<int> a, tensor<int> b, tensor<int> c) {
            return bumped(std::move(a)).then(bumped(std::move(b))).then(bumped(std::move(c)));
        },
        device_input<int>({4}), device_input<int>({4}), device_input<int>({4}));
    EXPECT_EQ(edges_of(fast.commands()), "bump <-; bump <- bump order; bump <- bump order");
    const auto both = compile(
        on,
        [](tensor<int> a, tensor<int> b, tensor<int> c) {
            return zip(bumped(std::move(a)), bumped(std::move(b))).then(bumped(std::move(c)));
        },
        device_input<int>({4}), device_input<int>({4}), device_input<int>({4}));
    EXPECT_EQ(edges_of(both.commands()), "bump <-; bump <-; bump <- bump order bump order");
}

// A before B and C, both before D. Each node is known by the tensor that it bumps, in the order of submission.
TEST_F(recorded_edges, a_diamond_of_then_has_four_edges) {
    const auto fast = compile(
        on,
        [](tensor<int> a, tensor<int> b, tensor<int> c, tensor<int> d) {
            return bumped(std::move(a))
                .then(zip(bumped(std::move(b)), bumped(std::move(c))))
                .then(bumped(std::move(d)));
        },
        device_input<int>({4}), device_input<int>({4}), device_input<int>({4}), device_input<int>({4}));
    std::vector<std::vector<std::size_t>> after;
    for (const graph_node& node : fast.commands().nodes) {
        after.emplace_back();
        for (const graph_edge& edge : node.after) {
            after.back().push_back(edge.from);
            EXPECT_EQ(edge.reason, edge_reason::stream_order);
        }
    }
    EXPECT_EQ(after, (std::vector<std::vector<std::size_t>>{{}, {0}, {0}, {1, 2}}));
}

// An explicit edge from the first of three launches to the third; the second has none.
TEST_F(recorded_edges, a_stream_that_is_recorded_takes_explicit_edges) {
    const auto fast = compile(
        on,
        [](tensor<int> a, tensor<int> b, tensor<int> c) {
            return with_context(
                [a = std::move(a), b = std::move(b), c = std::move(c)](execution_context& context) mutable {
                    stream to = context.stream();
                    launch_on(to, bump{}, each_of(a), a);
                    const ticket first = to.issued();
                    launch_on(to, bump{}, each_of(b), b);
                    to.order_after(to.point(first));
                    launch_on(to, bump{}, each_of(c), c);
                    launch_on(to, bump{}, each_of(c), c);
                    return std::tuple(std::move(a), std::move(b), std::move(c));
                });
        },
        device_input<int>({4}), device_input<int>({4}), device_input<int>({4}));
    EXPECT_EQ(edges_of(fast.commands()), "bump <-; bump <-; bump <- bump order; bump <- bump waw input");
}

// A condition with its body is one node of the order.
TEST_F(recorded_edges, conditions_take_part_in_an_explicit_order) {
    const auto fast = compile(
        on,
        [](tensor<int> flag, tensor<int> a, tensor<int> b, tensor<int> c) {
            return bumped(std::move(a)).then(if_(std::move(flag), bumped, std::move(b))).then(bumped(std::move(c)));
        },
        device_input<int>({1}), device_input<int>({4}), device_input<int>({4}), device_input<int>({4}));
    EXPECT_EQ(
        edges_of(fast.commands()),
        "copy in <-; copy in <-; bump <-; if_ <- copy in raw input copy in waw input bump order; bump <- if_ order");
    const auto after_its_body = compile(
        on,
        [](tensor<int> flag, tensor<int> b, tensor<int> c) {
            return with_context(
                [flag = std::move(flag), b = std::move(b), c = std::move(c)](execution_context& context) mutable {
                    stream to = context.stream();
                    ticket inside = 0;
                    auto body = [&](tensor<int> x) {
                        return bumped(std::move(x)).transform([&](tensor<int> y) {
                            inside = to.issued();
                            return y;
                        });
                    };
                    tensor<int> made = if_(std::move(flag), body, std::move(b)).submit(context);
                    to.order_after(to.point(inside));
                    launch_on(to, bump{}, each_of(c), c);
                    return std::tuple(std::move(made), std::move(c));
                });
        },
        device_input<int>({1}), device_input<int>({4}), device_input<int>({4}));
    EXPECT_EQ(
        edges_of(after_its_body.commands()),
        "copy in <-; copy in <-; if_ <- copy in raw input copy in waw input; bump <- if_ order; copy out <- if_ raw "
        "input");
}

// Else the kernel could end before what it comes after: it need not wait for memory that it does not share.
TEST_F(recorded_edges, the_order_of_the_stream_is_no_early_start) {
    const auto fast = compile(
        on,
        [](tensor<int> x) {
            return with_context([x = std::move(x)](execution_context& context) mutable {
                context.stream().launch({"alone"}, {.host_function = [](const void*) {}, .early_start = true});
                launch_on(context.stream(), bump{}, each_of(x).early_start(), x);
                return std::move(x);
            });
        },
        device_input<int>({4}));
    EXPECT_EQ(edges_of(fast.commands()), "alone <-; bump <- alone order");
    for (const graph_node& node : fast.commands().nodes)
        for (const graph_edge& edge : node.after) EXPECT_FALSE(edge.is_programmatic);
}

TEST_F(recorded_edges, an_early_start_is_noted_after_kernels_only) {
    const auto fast = compile(
        on,
        [](tensor<int> x) {
            return bumped(std::move(x)).and_then([](tensor<int> y) {
                const auto range = each_of(y).early_start();
                return launch(bump{}, range, std::move(y));
            });
        },
        host_input<int>({4}));
    EXPECT_EQ(edges_of(fast.commands()), "upload <-; bump <- upload waw input; bump <- bump waw input early");
}

TEST_F(recorded_edges, a_condition_comes_after_the_writers_of_what_it_and_its_body_use) {
    const auto fast = compile(
        on,
        [](tensor<int> flag, tensor<int> x, tensor<int> y) {
            return zip(bumped(std::move(flag)), bumped(std::move(x)), bumped(std::move(y)))
                .and_then([](tensor<int> condition, tensor<int> a, tensor<int> b) {
                    return zip(
                        if_(
                            std::move(condition), [](tensor<int> in) { return bumped(std::move(in)); }, std::move(a)),
                        value(std::move(b)));
                })
                .and_then(
                    [](tensor<int> a, tensor<int> b) { return zip(download(std::move(a)), download(std::move(b))); });
        },
        host_input<int>({1}), host_input<int>({4}), host_input<int>({4}));
    const command_graph& graph = fast.commands();
    ASSERT_EQ(graph.nodes.size(), 9u);
    const graph_node& part = graph.nodes[6];
    EXPECT_EQ(part.name, "if_");
    ASSERT_EQ(part.after.size(), 2u);  // not after the third
    EXPECT_EQ(part.after[0].from, 3u);
    EXPECT_EQ(part.after[1].from, 4u);
    EXPECT_EQ(edges_of(*std::get<conditional_command>(part.what).body), "bump <-");
    EXPECT_NE(to_svg(graph).find("if this is not 0: input, 4 bytes"), std::string::npos);
}

}  // namespace
}  // namespace sluice::recorded_edges_tests

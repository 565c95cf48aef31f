// SPDX-License-Identifier: Apache-2.0
// Answers at once: network(inputs, outputs). Several calls with the same shapes, because the first two go other ways.
#include <gmock/gmock.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "nn/kept_calls.hpp"
#include "nn/prepared_network.hpp"
#include "nn/small_models.hpp"
#include "sluice/nn/kept_limit.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/op/value.hpp"
#include "sluice/runtime/host_call.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/sim/simulator.hpp"
#include "sluice/trace/trace_recorder.hpp"

namespace sluice::nn::direct_calls_tests {
namespace {

using namespace test_support;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using numbers = std::vector<float>;

constexpr int repetitions = 4;

model empty_model(std::string name) {
    model made;
    made.path = std::move(name);
    made.opsets = {{"", 17}};
    return made;
}

// y = softmax(relu(x * w) * w), z = 2 x
model layers() {
    model made = empty_model("layers.onnx");
    made.body.inputs = {f32("x", {named("rows"), of(2)})};
    made.body.outputs = {f32("y", {named("rows"), of(2)}), f32("z", {named("rows"), of(2)})};
    made.body.constants = {{"w", tensor_of<float>({1, -2, 0.5f, 3}, {2, 2})}, {"two", tensor_of<float>({2}, {})}};
    made.body.nodes = {make_node("MatMul", {"x", "w"}, {"a"}), make_node("Relu", {"a"}, {"b"}),
                       make_node("MatMul", {"b", "w"}, {"c"}), make_node("Softmax", {"c"}, {"y"}),
                       make_node("Mul", {"x", "two"}, {"z"})};
    return made;
}

// Two dense layers, which are one command that reads x where the caller has it: y = relu(x * w + b) * w + b
model dense_layers() {
    model made = empty_model("dense_layers.onnx");
    made.body.inputs = {f32("x", {named("rows"), of(2)})};
    made.body.outputs = {f32("y", {named("rows"), of(2)})};
    made.body.constants = {{"w", tensor_of<float>({1, -2, 0.5f, 3}, {2, 2})}, {"b", tensor_of<float>({1, -1}, {2})}};
    made.body.nodes = {make_node("Gemm", {"x", "w", "b"}, {"a"}), make_node("Relu", {"a"}, {"r"}),
                       make_node("Gemm", {"r", "w", "b"}, {"y"})};
    return made;
}

// y = x[places]
model gathers() {
    model made = empty_model("gathers.onnx");
    made.body.inputs = {f32("x", {of(3)}), {"places", io::dtype::i64, {{of(2)}}}};
    made.body.outputs = {f32("y", {of(2)})};
    made.body.nodes = {make_node("Gather", {"x", "places"}, {"y"})};
    return made;
}

class direct_calls : public ::testing::Test {
protected:
    network make(model from) { return sync(make_network(std::move(from)), pool); }

    static std::string refusal(errc code, auto&& call) {
        try {
            call();
        } catch (const error& failure) {
            EXPECT_EQ(failure.code(), code);
            return failure.what();
        }
        return "no error";
    }
    void expect_as_run(const network& made, const numbers& x) {
        const std::size_t rows = x.size() / 2;
        numbers y(x.size()), z(x.size());
        made({{x, {rows, 2}}}, {{y, {rows, 2}}, {z, {rows, 2}}});
        const auto expected = sync(made.run({any_tensor(x, {rows, 2})}), pool);
        EXPECT_THAT(y, testing::ElementsAreArray(expected.at(0).values<float>()));
        EXPECT_THAT(z, testing::ElementsAreArray(expected.at(1).values<float>()));
    }

    runtime machine{runtime_options{.cpu_devices = 1, .cpu_workers = 2, .cuda = false}};
    round_robin pool{machine.find("cpu:0"), 2};
};

}  // namespace

TEST_F(direct_calls, give_the_same_bits_as_run) {
    const network made = make(layers());
    for (int i = 0; i < repetitions; ++i) {
        const auto step = static_cast<float>(i);
        expect_as_run(made, {step, -1});
        expect_as_run(made, {1, 2, step, 4, 5, -step});
    }
    expect_as_run(made, {});
}

// At other addresses each time, also at such as are no multiple of 16 bytes.
TEST_F(direct_calls, read_inputs_wherever_they_are) {
    const network made = make(dense_layers());
    for (int i = 0; i < 8; ++i) {
        for (const std::size_t rows : {1u, 5u, 40u}) {
            const auto first = static_cast<std::size_t>(i % 4);
            numbers room(first + 2 * rows);
            for (std::size_t k = 0; k < 2 * rows; ++k)
                room[first + k] = static_cast<float>(k % 7) - static_cast<float>(i);
            const numbers before = room, x(room.begin() + static_cast<std::ptrdiff_t>(first), room.end());
            numbers y(2 * rows);
            made({{std::span<const float>(room).subspan(first), {rows, 2}}}, {{y, {rows, 2}}});
            const auto expected = sync(made.run({any_tensor(x, {rows, 2})}), pool);
            EXPECT_THAT(y, testing::ElementsAreArray(expected.at(0).values<float>())) << rows << " rows, call " << i;
            EXPECT_EQ(room, before);
        }
    }
}

// Numbers as they are in the middle of a message. A build with the address sanitizer checks each access.
TEST_F(direct_calls, read_inputs_at_addresses_that_are_no_multiples_of_their_elements) {
    const network made = make(dense_layers());
    const std::vector<std::size_t> shape{5, 2};
    for (std::size_t first = 0; first < 2 * sizeof(float); ++first) {
        numbers x(10);
        for (std::size_t k = 0; k < x.size(); ++k) x[k] = static_cast<float>(k) - static_cast<float>(first);
        std::vector<std::byte> message(first + 10 * sizeof(float));
        std::memcpy(message.data() + first, x.data(), 10 * sizeof(float));
        const auto expected = sync(made.run({any_tensor(x, shape)}), pool);
        for (int i = 0; i < repetitions; ++i) {
            numbers y(10);
            made({input_view(io::dtype::f32, message.data() + first, shape)}, {{y, shape}});
            EXPECT_THAT(y, testing::ElementsAreArray(expected.at(0).values<float>()));
        }
    }
}

TEST_F(direct_calls, keep_no_more_bytes_than_their_limit) {
    device& cpu = machine.find("cpu:0");
    const auto in_use = [&] { return cpu.device_pool().usage().in_use_bytes + cpu.host_pool().usage().in_use_bytes; };
    // What the network has taken after calls of this many shapes.
    const auto kept_after = [&](std::size_t shapes, std::size_t bytes) {
        const kept_limit limit(bytes);
        const std::size_t before = in_use();
        const network made = make(layers());
        for (std::size_t rows = 20'000; rows < 20'000 + shapes; ++rows) {
            const numbers x(2 * rows, 1);
            numbers y(2 * rows), z(2 * rows);
            for (int i = 0; i < repetitions; ++i) made({{x, {rows, 2}}}, {{y, {rows, 2}}, {z, {rows, 2}}});
            EXPECT_EQ(z.back(), 2);
        }
        return in_use() - before;
    };
    const std::size_t one = kept_after(1, kept_limit::default_bytes);
    EXPECT_GE(one, 3 * 20'000 * 2 * sizeof(float));  // x, y and z
    EXPECT_GT(kept_after(20, kept_limit::default_bytes), 15 * one);
    EXPECT_LE(kept_after(20, 3 * one), 5 * one);
    EXPECT_LE(kept_after(20, 0), 2 * one);  // the call that came last
}

// A call that is kept takes no memory of the device.
TEST_F(direct_calls, drop_those_that_were_used_longest_ago) {
    device& cpu = machine.find("cpu:0");
    const auto takes_memory = [&](const network& of, std::size_t rows) {
        const numbers x(2 * rows, 1);
        numbers y(2 * rows), z(2 * rows);
        const std::size_t before = cpu.device_pool().usage().allocations;
        of({{x, {rows, 2}}}, {{y, {rows, 2}}, {z, {rows, 2}}});
        return cpu.device_pool().usage().allocations != before;
    };
    const auto call = [&](const network& of, std::size_t rows) {
        for (int i = 0; i < repetitions; ++i) takes_memory(of, rows);
    };
    const std::size_t of_values = 3 * 2 * 20'004 * sizeof(float);
    std::size_t dropped = 0;
    for (std::size_t calls = 3; calls < 12; ++calls) {  // for as many that the limit lets some of them stay
        const kept_limit limit(calls * of_values);
        const network made = make(layers());
        for (const std::size_t rows : {20'001U, 20'002U, 20'003U}) call(made, rows);
        if (takes_memory(made, 20'001) || takes_memory(made, 20'003)) continue;  // there is no room for three
        call(made, 20'004);
        EXPECT_FALSE(takes_memory(made, 20'004));
        if (!takes_memory(made, 20'002)) continue;  // there was room for four
        ++dropped;
        EXPECT_FALSE(takes_memory(made, 20'001));
        EXPECT_FALSE(takes_memory(made, 20'003));
    }
    EXPECT_GT(dropped, 0U);
}

// Calls are kept by a number for the shapes. That of these two combinations is the same.
TEST_F(direct_calls, of_shapes_that_are_kept_by_the_same_number_are_right) {
    using lengths = std::vector<std::size_t>;
    const lengths first{1, 2, 1, 1, 4, 1, 1, 1};
    const numbers eight(8, -1), many(2 * 204'012, 3);
    const auto views = [&](const lengths& second) {
        return std::vector{input_view(io::dtype::f32, eight.data(), first),
                           input_view(io::dtype::f32, many.data(), second)};
    };
    const lengths one{1, 1, 1, 1, 1, 1, 3, 5}, other{1, 1, 1, 1, 1, 2, 1, 204'012};
    ASSERT_EQ(detail::kept_calls::key_of(views(one)), detail::kept_calls::key_of(views(other)))
        << "the numbers are made in another way: look for two combinations that have the same";
    model from = empty_model("any_shapes.onnx");
    const std::vector<dimension> any(8, named(""));
    from.body.inputs = {f32("x", any), f32("w", any)};
    from.body.outputs = {f32("y", any), f32("z", any)};
    from.body.nodes = {make_node("Relu", {"x"}, {"y"}), make_node("Relu", {"w"}, {"z"})};
    const network made = make(from);
    for (int i = 0; i < repetitions; ++i) {
        for (const lengths& second : {one, other}) {
            const std::vector<any_tensor> answers = made(views(second));
            EXPECT_THAT(answers.at(0).values<float>(), Each(0));
            EXPECT_EQ(answers.at(1).shape(), second);
            EXPECT_THAT(answers.at(1).values<float>(), Each(3));
        }
    }
}

TEST_F(direct_calls, may_write_outputs_over_inputs) {
    const network made = make(dense_layers());
    for (int i = 0; i < repetitions; ++i) {
        numbers x(2 * 300);
        for (std::size_t k = 0; k < x.size(); ++k) x[k] = static_cast<float>(k % 5) - static_cast<float>(i);
        const auto expected = sync(made.run({any_tensor(x, {300, 2})}), pool);
        made({{x, {300, 2}}}, {{x, {300, 2}}});
        EXPECT_THAT(x, testing::ElementsAreArray(expected.at(0).values<float>()));
    }
}

TEST_F(direct_calls, give_outputs_in_new_memory) {
    const network made = make(layers());
    for (int i = 0; i < repetitions; ++i) {
        const any_tensor x(numbers{static_cast<float>(i), 2}, {1, 2});
        const std::vector<input_view> inputs{input_view(x)};
        const std::vector<any_tensor> outputs = made(inputs);
        const auto expected = sync(made.run({x}), pool);
        ASSERT_EQ(outputs.size(), 2u);
        for (std::size_t k = 0; k < 2; ++k) {
            EXPECT_EQ(to_string(outputs[k]), to_string(expected[k]));
            EXPECT_THAT(outputs[k].values<float>(), testing::ElementsAreArray(expected[k].values<float>()));
        }
    }
    EXPECT_THAT(refusal(errc::invalid_argument, [] { input_view(any_tensor::of_shape(io::dtype::f32, {1, 2})); }),
                HasSubstr("the tensor f32 [1, 2] is not in host memory"));
}

TEST_F(direct_calls, take_inputs_of_ever_other_shapes) {
    const network made = make(layers());
    for (int turn = 0; turn < 3; ++turn)
        for (std::size_t rows = 1; rows < 100; ++rows) expect_as_run(made, numbers(2 * rows, 0.25f));
}

TEST_F(direct_calls, run_on_several_threads_at_once) {
    const network made = make(layers());
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
        threads.emplace_back([&, t] {
            for (int i = 0; i < 200; ++i) {
                const std::size_t rows = 1 + static_cast<std::size_t>(i % 3);
                const numbers x(2 * rows, static_cast<float>(t + i));
                numbers y(x.size()), z(x.size());
                made({{x, {rows, 2}}}, {{y, {rows, 2}}, {z, {rows, 2}}});
                EXPECT_THAT(z, Each(2 * static_cast<float>(t + i)));
            }
        });
    }
    for (std::thread& each : threads) each.join();
}

// More threads than have places of their own, and more shapes than are kept.
TEST_F(direct_calls, of_many_threads_with_many_shapes_are_right) {
    const network made = make(layers());
    std::vector<std::jthread> threads;
    for (std::size_t thread = 0; thread < 10; ++thread) {
        threads.emplace_back([&made, thread] {
            for (std::size_t i = 0; i < 400; ++i) {
                // Most of them are those of all threads, and come again at once.
                const std::size_t rows = i % 8 != 0 ? 1 + i / 100 : 1 + (7 * thread + i) % 90;
                const auto value = static_cast<float>(1000 * thread + i);
                const numbers x(2 * rows, value);
                numbers y(2 * rows), z(2 * rows);
                made({{x, {rows, 2}}}, {{y, {rows, 2}}, {z, {rows, 2}}});
                ASSERT_THAT(z, Each(2 * value));
            }
        });
    }
}

TEST_F(direct_calls, refuse_views_that_do_not_fit_and_write_nothing) {
    const network made = make(layers());
    const numbers x{1, 2};
    for (int i = 0; i < repetitions; ++i) {
        numbers y{7, 7}, z{7, 7}, more(3, 7);
        EXPECT_THAT(refusal(errc::shape_mismatch, [&] { made({{x, {1, 2}}}, {{y, {1, 2}}}); }),
                    HasSubstr("layers.onnx: the network gives 2 outputs, and is given room for 1"));
        EXPECT_THAT(refusal(errc::shape_mismatch, [&] { made({{x, {1, 2}}}, {{y, {1, 2}}, {more, {1, 3}}}); }),
                    HasSubstr("output 'z' is f32 [1, 2], and is given room for f32 [1, 3]"));
        EXPECT_THAT(refusal(errc::shape_mismatch, [&] { made({{x, {2, 1}}}, {{y, {1, 2}}, {z, {1, 2}}}); }),
                    HasSubstr("input 'x': dimension 1 is 2, and is given 1"));
        EXPECT_THAT(refusal(errc::shape_mismatch, [&] { made({}, {{y, {1, 2}}, {z, {1, 2}}}); }),
                    HasSubstr("takes 1 inputs, and is given 0"));
        for (int again = 0; again < 3; ++again) {
            EXPECT_THAT(
                refusal(errc::shape_mismatch, [&] { made({{x, {1, 2}}, {x, {1, 2}}}, {{y, {1, 2}}, {z, {1, 2}}}); }),
                HasSubstr("takes 1 inputs, and is given 2"));
        }
        const std::vector<double> wide{1, 2};
        EXPECT_THAT(refusal(errc::shape_mismatch, [&] { made({{wide, {1, 2}}}, {{y, {1, 2}}, {z, {1, 2}}}); }),
                    HasSubstr("input 'x' is f32, and is given f64"));
        EXPECT_THAT(y, Each(7));
        EXPECT_THAT(z, Each(7));
        expect_as_run(made, x);
    }
}

TEST_F(direct_calls, refuse_views_without_numbers_and_of_wrong_lengths) {
    const network made = make(layers());
    numbers x{1, 2}, y(2), z(2);
    EXPECT_THAT(refusal(errc::shape_mismatch, [&] { input_view(x, {1, 3}); }),
                HasSubstr("2 numbers do not fill f32 [1, 3]"));
    EXPECT_THAT(refusal(errc::shape_mismatch, [&] { input_view(x, {2, 1, 1, 1, 1, 1, 1, 1, 1}); }),
                HasSubstr("a view has at most 8 dimensions"));
    EXPECT_THAT(refusal(errc::shape_mismatch, [&] { output_view(x, {~std::size_t{0}, 2}); }), HasSubstr("has no size"));
    const std::vector<std::size_t> shape{1, 2};
    EXPECT_THAT(refusal(errc::invalid_argument,
                        [&] { made({input_view(io::dtype::f32, nullptr, shape)}, {{y, {1, 2}}, {z, {1, 2}}}); }),
                HasSubstr("the view of input 0 has no memory"));
    for (int i = 0; i < repetitions; ++i) {
        EXPECT_THAT(refusal(errc::invalid_argument,
                            [&] { made({{x, shape}}, {{y, shape}, output_view(io::dtype::f32, nullptr, shape)}); }),
                    HasSubstr("the view for output 'z' has no memory"));
    }
}

TEST_F(direct_calls, report_what_fails_while_they_run_and_answer_again) {
    const network made = make(gathers());
    const numbers x{1, 2, 3};
    for (int i = 0; i < repetitions; ++i) {
        numbers y{7, 7};
        const std::vector<std::int64_t> good{2, -3}, bad{0, 3};
        EXPECT_THAT(refusal(errc::out_of_range, [&] { made({{x, {3}}, {bad, {2}}}, {{y, {2}}}); }),
                    AllOf(HasSubstr("index 3"), HasSubstr("-3 to 2 are possible")));
        EXPECT_THAT(y, ElementsAre(7, 7));
        made({{x, {3}}, {good, {2}}}, {{y, {2}}});
        EXPECT_THAT(y, ElementsAre(3, 1));
    }
}

TEST_F(direct_calls, draw_other_random_numbers_each_time) {
    model from = empty_model("random.onnx");
    from.body.inputs = {f32("x", {of(4)})};
    from.body.outputs = {f32("y", {of(4)})};
    from.body.nodes = {make_node("RandomUniformLike", {"x"}, {"r"}), make_node("Add", {"x", "r"}, {"y"})};
    const network made = make(from);
    const numbers x(4, 0);
    std::vector<numbers> all;
    for (int i = 0; i < repetitions; ++i) {
        numbers y(4);
        made({{x, {4}}}, {{y, {4}}});
        EXPECT_THAT(all, Each(testing::Ne(y)));
        all.push_back(y);
    }
}

// The shape is in an input, whose numbers the host needs.
TEST_F(direct_calls, take_inputs_that_the_host_needs) {
    model from = empty_model("reshapes.onnx");
    from.body.inputs = {f32("x", {of(6)}), {"shape", io::dtype::i64, {{of(2)}}}};
    from.body.outputs = {f32("y", {named("a"), named("b")})};
    from.body.nodes = {make_node("Reshape", {"x", "shape"}, {"y"})};
    const network made = make(from);
    const numbers x{1, 2, 3, 4, 5, 6};
    for (const std::size_t rows : {2, 3, 2, 6, 3, 3}) {
        const std::vector<std::int64_t> shape{static_cast<std::int64_t>(rows), -1};
        numbers y(6);
        made({{x, {6}}, {shape, {2}}}, {{y, {rows, 6 / rows}}});
        EXPECT_EQ(y, x);
        EXPECT_THAT(refusal(errc::shape_mismatch, [&] { made({{x, {6}}, {shape, {2}}}, {{y, {1, 6}}}); }),
                    HasSubstr("and is given room for f32 [1, 6]"));
    }
}

// Few numbers that decide are a part of what a call is kept for.
TEST_F(direct_calls, are_kept_for_each_of_the_numbers_that_decide) {
    model from = empty_model("reshapes.onnx");
    from.body.inputs = {f32("x", {of(6)}), {"shape", io::dtype::i64, {{of(2)}}}};
    from.body.outputs = {f32("y", {named("a"), named("b")})};
    from.body.nodes = {make_node("Reshape", {"x", "shape"}, {"r"}), make_node("Relu", {"r"}, {"y"})};
    const network made = make(from);
    numbers x{1, 2, 3, 4, 5, 6}, y(6);
    const std::vector<std::int64_t> wide{2, 3}, long_one{3, 2}, other{6, 1};
    const auto call = [&](const std::vector<std::int64_t>& shape) {
        std::ranges::rotate(x, x.begin() + 1);
        made({{x, {6}}, {shape, {2}}}, {{y, {static_cast<std::size_t>(shape[0]), static_cast<std::size_t>(shape[1])}}});
        EXPECT_EQ(y, x);
    };
    for (int i = 0; i < 4; ++i) {
        call(wide);
        call(long_one);
    }
    const std::size_t kept = made.inside().calls().bytes();
    EXPECT_GT(kept, 0U);
    for (int i = 0; i < 4; ++i) call(wide);
    EXPECT_EQ(made.inside().calls().bytes(), kept);
    call(other);
    EXPECT_EQ(made.inside().calls().bytes(), kept);  // once
    call(other);
    EXPECT_GT(made.inside().calls().bytes(), kept);
}

// Numbers that never come again, such as a position that counts up, cost no preparation.
TEST_F(direct_calls, with_ever_other_numbers_that_decide_are_not_kept) {
    model from = empty_model("ranges.onnx");
    from.body.inputs = {{"length", io::dtype::i64, std::vector<dimension>{}}};
    from.body.outputs = {{"y", io::dtype::i64, {{named("length")}}}};
    from.body.constants = {{"zero", tensor_of<std::int64_t>({0}, {})}, {"one", tensor_of<std::int64_t>({1}, {})}};
    from.body.nodes = {make_node("Range", {"zero", "length", "one"}, {"y"})};
    const network made = make(from);
    for (std::int64_t length = 1; length < 300; ++length) {
        const std::vector<std::int64_t> of{length};
        std::vector<std::int64_t> y(static_cast<std::size_t>(length));
        made({{of, {}}}, {{y, {y.size()}}});
        EXPECT_EQ(y.back(), length - 1);
    }
    EXPECT_EQ(made.inside().calls().bytes(), 0U);
}

TEST_F(direct_calls, give_outputs_that_are_inputs_constants_and_shapes) {
    model from = empty_model("copies.onnx");
    from.body.inputs = {f32("x", {named("n")})};
    from.body.outputs = {f32("x", {named("n")}), f32("c", {of(1)}), {"s", io::dtype::i64, {{of(1)}}}};
    from.body.constants = {{"c", tensor_of<float>({9}, {1})}};
    from.body.nodes = {make_node("Shape", {"x"}, {"s"})};
    const network made = make(from);
    for (int i = 0; i < repetitions; ++i) {
        const numbers x{static_cast<float>(i), 2};
        numbers copy(2), c(1);
        std::vector<std::int64_t> s(1);
        made({{x, {2}}}, {{copy, {2}}, {c, {1}}, {s, {1}}});
        EXPECT_EQ(copy, x);
        EXPECT_THAT(c, ElementsAre(9));
        EXPECT_THAT(s, ElementsAre(2));
    }
}

TEST_F(direct_calls, outlive_the_runtime_and_are_refused_then) {
    auto other = std::make_unique<runtime>(runtime_options{.cpu_workers = 1, .cuda = false});
    auto on = std::make_unique<single_stream>(other->find("cpu:0"));
    const network made = sync(make_network(layers()), *on);
    const numbers x{1, 2};
    numbers y(2), z(2);
    const auto call = [&] { made({{x, {1, 2}}}, {{y, {1, 2}}, {z, {1, 2}}}); };
    for (int i = 0; i < repetitions; ++i) call();
    on.reset();
    other.reset();
    EXPECT_THROW(call(), error);
}

TEST_F(direct_calls, are_possible_in_a_host_call_once_the_network_knows_the_shapes) {
    const network made = make(layers());
    const numbers x{1, 2};
    const auto call = [&] {
        numbers y(2), z(2);
        made({{x, {1, 2}}}, {{y, {1, 2}}, {z, {1, 2}}});
        return z;
    };
    const auto inside = [&] { return sync(value(0).and_then([&](int) { return host_call(call); }), pool); };
    EXPECT_THAT(refusal(errc::invalid_argument, inside), HasSubstr("network"));
    for (int i = 0; i < repetitions; ++i) call();
    EXPECT_THAT(inside(), ElementsAre(2, 4));
}

TEST_F(direct_calls, are_traced) {
    trace_recorder recorder;
    runtime watched(runtime_options{.cpu_workers = 1, .cuda = false, .trace = &recorder});
    single_stream on(watched.find("cpu:0"));
    const network seen = sync(make_network(layers()), on);
    const numbers x{1, 2};
    numbers y(2), z(2);
    for (int i = 0; i < repetitions; ++i) {
        static_cast<void>(recorder.take());
        seen({{x, {1, 2}}}, {{y, {1, 2}}, {z, {1, 2}}});
        EXPECT_FALSE(recorder.take().events.empty());
    }
}

TEST_F(direct_calls, are_simulated_without_a_finding) {
    sim::simulator simulated;
    single_stream on(simulated.device());
    const network made = sync(make_network(layers()), on);
    for (int i = 0; i < repetitions; ++i) {
        const numbers x{static_cast<float>(i), 2};
        numbers y(2), z(2);
        made({{x, {1, 2}}}, {{y, {1, 2}}, {z, {1, 2}}});
        EXPECT_THAT(z, ElementsAre(2 * static_cast<float>(i), 4));
    }
    EXPECT_TRUE(simulated.findings().empty());
}

}  // namespace sluice::nn::direct_calls_tests

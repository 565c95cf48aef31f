// SPDX-License-Identifier: Apache-2.0
// own_operator: an operator of your own in a network. The network is written here too; one in an ONNX file whose nodes
// are of the domain com.example runs in the same way. It runs, is compiled into a graph, and is tried by the simulator.
#include <cmath>
#include <cstdio>

#include "sluice/sluice.hpp"

using namespace sluice;

struct swish {  // y = x / (1 + exp(-beta * x))
    SLUICE_KERNEL void operator()(index_1d at, float beta, view<const float> x, disjoint_view<float> y) const {
        const float number = x[at.value()];
        if (float* const element = y.at(at)) *element = number / (1 + std::exp(-beta * number));
    }
};

void run_swish(nn::operator_call& node) {  // for a GPU, a CPU and the inference of shapes
    const nn::any_tensor& x = node.input(0);
    const nn::new_tensor y = node.make_output(0, x.type(), x.shape());
    node.launch(swish{}, each_of(y), node.attribute("beta", 1.f), x, y);
}

int main() try {
    const nn::own_operators operators(
        {{.domain = "com.example", .name = "Swish", .attributes = {"beta"}, .run = &run_swish}});

    nn::model_builder build("small", {.own = operators});
    const auto x = build.input("x", {"rows", 3});
    const auto sums = build.linear(x, build.constant({1.f, 0.f, 1.f, 0.f, -1.f, 1.f}, {2, 3}));
    build.output("y", build.node("com.example.Swish", {sums}, {{"beta", 2.0}}));

    runtime machine;
    round_robin pool(machine.default_device(), 2);
    const nn::network small = sync(nn::make_network(build.finish(), {.own = operators}), pool);

    const std::vector<float> rows = {1, 2, 3, -1, 0.5f, 0};
    const auto answers = sync(small.run({nn::any_tensor(rows, {2, 3})}), pool);
    const std::span<const float> y = answers[0].values<float>();
    std::printf("run:       %.5f %.5f | %.5f %.5f\n", y[0], y[1], y[2], y[3]);

    const auto forward = [=](tensor<float> input) {
        return small.forward({nn::any_tensor(std::move(input))}).and_then([](std::vector<nn::any_tensor> values) {
            return download(values[0].on_device<float>());
        });
    };
    const auto fast = compile(pool, forward, device_input<float>({2, 3}));
    const std::vector<float> again = sync(upload(rows, {2, 3}).and_then(fast), pool);
    std::printf("compiled:  %.5f %.5f | %.5f %.5f\n", again[0], again[1], again[2], again[3]);

    const auto simulated = [&](scheduling_policy& streams) {
        const nn::network there = sync(nn::make_network(build.finish(), {.own = operators}), streams);
        return sync(there.run({nn::any_tensor(rows, {2, 3})}), streams)[0].values<float>()[0];
    };
    sim::explore(simulated, {.schedules = 200}).require_clean();
    std::puts("simulated: no race in 200 schedules");
} catch (const std::exception& failure) {
    std::fprintf(stderr, "own_operator: %s\n", failure.what());
    return 1;
}

// SPDX-License-Identifier: Apache-2.0
// Operations of every kind, which must give the same result however they run: submitted eagerly, compiled, as a part of
// another graph, or on the simulator.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sluice/kernels/arithmetic.hpp"
#include "sluice/kernels/cast.hpp"
#include "sluice/kernels/elementwise.hpp"
#include "sluice/kernels/fused_mlp.hpp"
#include "sluice/kernels/gemm.hpp"
#include "sluice/kernels/matvec.hpp"
#include "sluice/kernels/pipelined_transform.hpp"
#include "sluice/kernels/random.hpp"
#include "sluice/kernels/reduce.hpp"
#include "sluice/kernels/softmax.hpp"
#include "sluice/kernels/transpose.hpp"
#include "sluice/sluice.hpp"

namespace sluice::conformance {

inline const shape agreed_shape{8, 16};

struct agreed_operation {
    std::string name;
    std::function<any_operation<pending<std::vector<float>>>(tensor<float>)> of;
};

namespace agreement {

struct add_to_all {
    SLUICE_KERNEL void operator()(index_1d at, float by, disjoint_view<float> x) const {
        if (float* const element = x.at(at)) *element += by;
    }
};
struct halve_and_repeat {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<float> x, loop_condition again) const {
        float* const element = x.at(at);
        if (element == nullptr) return;
        *element /= 2;
        if (at.value() == x.size() - 1) again.set(*element > 1);
    }
};
struct is_above {
    SLUICE_KERNEL void operator()(index_1d at, view<const float> x, float limit, disjoint_view<int> said) const {
        if (int* const element = said.at(at)) *element = x[x.size() - 1] > limit ? 1 : 0;
    }
};
struct square_batch {
    SLUICE_KERNEL void operator()(const float* batch, float* out, std::size_t count, unsigned rank,
                                  unsigned threads) const {
        for (std::size_t i = rank; i < count; i += threads) out[i] = batch[i] * batch[i];
    }
};

inline auto plus(float by) {
    return [by](tensor<float> x) {
        const auto all = each_of(x);
        return launch(add_to_all{}, all, by, std::move(x));
    };
}
inline auto above(float limit) {
    return [limit](shared_tensor<float> x) {
        return uninitialized<int>({1}).and_then([=](auto said) {
            const auto one = each_of(said);
            return launch(is_above{}, one, x, limit, std::move(said));
        });
    };
}
inline std::vector<float> some(std::size_t count, float step) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = step * float(int(i * 7 % 13) - 6);
    return values;
}

}  // namespace agreement

// Each takes a tensor of shape [8, 16]. Their weights are on the pool's device. Each operation gives the same bits in
// every run.
inline std::vector<agreed_operation> agreed_operations(scheduling_policy& pool) {
    using namespace agreement;
    const auto weight = sync(share(upload(some(16 * 12, 0.1f), {12, 16})), pool);
    const auto bias = sync(share(upload(some(12, 0.5f))), pool);
    const auto other = sync(share(upload(some(8 * 16, 0.25f), {8, 16})), pool);
    const auto network = sync(pack_mlp<half>({{16, 16, some(256, 0.05f), some(16, 0.1f), activation::relu},
                                              {16, 4, some(64, 0.1f), {}, activation::none}}),
                              pool);
    const auto down = [](auto operation) { return std::move(operation).and_then(download); };
    std::vector<agreed_operation> all;
    const auto add_operation = [&](std::string name, auto f) {
        all.push_back({std::move(name),
                       [f](tensor<float> x) { return any_operation<pending<std::vector<float>>>(f(std::move(x))); }});
    };
    add_operation("download", [](tensor<float> x) { return download(std::move(x)); });
    add_operation("copy", [=](tensor<float> x) { return down(copy(shared_tensor<float>(std::move(x)))); });
    add_operation("launch", [=](tensor<float> x) { return down(plus(3)(std::move(x)).and_then(plus(-1))); });
    add_operation("arithmetic", [=](tensor<float> x) {
        return down(add(std::move(x), other).and_then(multiply(other)).and_then(scale(0.5f)));
    });
    add_operation("activations", [=](tensor<float> x) {
        return down(relu(std::move(x)).and_then([](auto y) { return gelu(std::move(y)); }).and_then([](auto y) {
            return sigmoid(std::move(y));
        }));
    });
    add_operation("softmax", [=](tensor<float> x) { return down(softmax(std::move(x))); });
    add_operation("gemm", [=](tensor<float> x) {
        return down(gemm(std::move(x), weight, bias, {.transpose_b = true, .after = activation::relu}));
    });
    add_operation("two gemms and a temporary", [=](tensor<float> x) {
        return down(gemm(std::move(x), weight, bias, {.transpose_b = true}).and_then([=](auto hidden) {
            return gemm(std::move(hidden), weight);
        }));
    });
    add_operation("matvec", [=](tensor<float> x) { return down(matvec(std::move(x), weight, std::optional(bias))); });
    add_operation("fused_mlp", [=](tensor<float> x) {
        return down(cast<half>(std::move(x)).and_then(fused_mlp(network)).and_then(cast<float>()));
    });
    add_operation("cast", [=](tensor<float> x) { return down(cast<bfloat16>(std::move(x)).and_then(cast<float>())); });
    add_operation("reductions", [=](tensor<float> x) {
        const shared_tensor<float> given(std::move(x));
        return down(
            zip(sum(given), max(given)).and_then([](auto a, auto b) { return add(std::move(a), std::move(b)); }));
    });
    add_operation("transpose", [=](tensor<float> x) { return down(transpose(std::move(x))); });
    add_operation("pipelined_transform", [=](tensor<float> x) {
        return down(pipelined_transform(pipelined::two_stages{}, square_batch{}, std::move(x)));
    });
    add_operation("tensors created inside", [=](tensor<float> x) {
        return down(
            zip(zeros<float>(agreed_shape), full<float>(agreed_shape, 2), uniform(agreed_shape, 7),
                upload(some(8 * 16, 1), agreed_shape))
                .and_then([given = shared_tensor<float>(std::move(x))](auto a, auto b, auto c, auto d) {
                    return zip(add(std::move(a), given), multiply(std::move(b), shared_tensor<float>(std::move(c))))
                        .and_then([last = shared_tensor<float>(std::move(d))](auto left, auto right) {
                            return add(std::move(left), shared_tensor<float>(std::move(right))).and_then([=](auto y) {
                                return add(std::move(y), last);
                            });
                        });
                }));
    });
    add_operation("arms of a zip", [=](tensor<float> x) {
        const shared_tensor<float> given(std::move(x));
        return down(
            zip(copy(given).and_then(plus(1)), copy(given).and_then(plus(2)).and_then(plus(3)))
                .and_then([](auto a, auto b) { return multiply(std::move(a), shared_tensor<float>(std::move(b))); }));
    });
    add_operation("share and unzip", [=](tensor<float> x) {
        auto [a, b] = unzip(zip(plus(1)(std::move(x)), full<float>(agreed_shape, 3)));
        return down(zip(std::move(a), std::move(b)).and_then([](auto one, auto two) {
            return add(std::move(one), shared_tensor<float>(std::move(two)));
        }));
    });
    add_operation("names", [=](tensor<float> x) {
        return named("outer", down(named("inner", plus(1)(std::move(x))).and_then(plus(2))));
    });
    add_operation("the plain forms", [=](tensor<float> x) {
        return down(with_context([given = std::move(x)](execution_context& context) mutable {
            launch_on(context.stream(), add_to_all{}, each_of(given), 4.f, given);
            return std::move(given);
        }));
    });
    add_operation("if_", [=](tensor<float> x) {
        const shared_tensor<float> given(std::move(x));
        return down(zip(above(5)(given), copy(given)).and_then([](auto flag, auto y) {
            return if_(std::move(flag), plus(100), std::move(y));
        }));
    });
    add_operation("repeat_while",
                  [=](tensor<float> x) { return down(repeat_while(above(-10), plus(-3), std::move(x))); });
    add_operation("do_while", [=](tensor<float> x) {
        return down(do_while(
            [](loop_flag again, tensor<float> now) {
                const auto each = each_of(now);
                return launch(halve_and_repeat{}, each, std::move(now), again);
            },
            std::move(x)));
    });
    add_operation("commands without data", [=](tensor<float> x) {
        const auto order = std::make_shared<std::vector<float>>();
        const auto note = [order](float what) { return host_call([order, what] { order->push_back(what); }); };
        return note(1)
            .and_then([note] { return note(2); })
            .then(note(3))
            .then(download(std::move(x)))
            .and_then([order, note](auto landed) {
                return note(4).then(host_call(
                    [order](std::vector<float> y) {
                        y.insert(y.end(), order->begin(), order->end());
                        return y;
                    },
                    std::move(landed)));
            });
    });
    add_operation("parts of a tensor", [=](tensor<float> x) {
        auto [top, bottom] = split<2>(std::move(x));
        return down(zip(plus(1)(std::move(top)), plus(2)(std::move(bottom))).transform([](auto one, auto two) {
            return join(std::move(one), std::move(two));
        }));
    });
    add_operation("an operation as an argument", [=](tensor<float> x) {
        return down(launch(add_to_all{}, each_written(), value(2.f), plus(1)(std::move(x))));
    });
    add_operation("a list of operations", [=](tensor<float> x) {
        const shared_tensor<float> given(std::move(x));
        std::vector<decltype(copy(given).and_then(plus(1)))> parts;
        for (int i = 0; i < 3; ++i) parts.push_back(copy(given).and_then(plus(float(i))));
        return down(zip(std::move(parts)).and_then([](std::vector<tensor<float>> made) {
            const shared_tensor<float> last(std::move(made[2]));
            return add(std::move(made[0]), shared_tensor<float>(std::move(made[1]))).and_then(multiply(last));
        }));
    });
    return all;
}

// The input of this round.
inline std::vector<float> agreed_input(int round) {
    std::vector<float> values(agreed_shape.size());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.125f * float(int(i * 5 % 31) - 15) + float(round);
    return values;
}

// Calls look(name, round, eagerly, otherwise) for each operation and each other way to run it, with both results.
template <typename Look>
void for_each_way(scheduling_policy& pool, Look&& look) {
    for (const agreed_operation& each : agreed_operations(pool)) {
        const auto fast = compile(pool, each.of, device_input<float>(agreed_shape));
        const auto around =
            compile(pool, [fast](tensor<float> x) { return fast(std::move(x)); }, host_input<float>(agreed_shape));
        const auto replicas = compile(pool, {.replicas = 2}, each.of, host_input<float>(agreed_shape));
        for (int round = 0; round < 3; ++round) {
            const std::vector<float> x = agreed_input(round);
            const std::vector<float> eagerly = sync(upload(x, agreed_shape).and_then(each.of), pool);
            look(each.name + ", compiled", round, eagerly, sync(upload(x, agreed_shape).and_then(fast), pool));
            look(each.name + ", in a graph", round, eagerly, sync(around(x), pool));
            auto one = spawn(replicas(x), pool);
            auto two = spawn(replicas(x), pool);
            look(each.name + ", two at once", round, eagerly, std::move(one).get());
            look(each.name + ", two at once", round, eagerly, std::move(two).get());
        }
    }
}

}  // namespace sluice::conformance

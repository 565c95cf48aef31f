// SPDX-License-Identifier: Apache-2.0
// Row chains: what they are packed to, by the form for a CPU against f64; and networks with dense layers and layer
// norms in 16 bits on the default device, a GPU where there is one, against f32.
#include "kernels/row_chain/row_chain.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "nn/small_models.hpp"
#include "sluice/base/half.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::nn::row_chain_tests {
namespace {

using namespace test_support;
using kernels::row_chain_part;

class numbers {
public:
    explicit numbers(unsigned seed) : random_(seed) {}
    std::vector<float> operator()(std::size_t count, float most) {
        std::uniform_real_distribution<float> any(-most, most);
        std::vector<float> made(count);
        for (float& each : made) each = any(random_);
        return made;
    }

private:
    std::minstd_rand random_;
};

struct chain_case {
    std::vector<std::size_t> widths;
    bool has_norms, ends_with_norm;
    activation after;
    std::size_t rows;
};

std::vector<row_chain_part> parts_of(const chain_case& of, numbers& any) {
    std::vector<row_chain_part> made;
    for (std::size_t i = 0; i + 1 < of.widths.size(); ++i) {
        const std::size_t in = of.widths[i], out = of.widths[i + 1];
        const bool is_last = i + 2 == of.widths.size(), has_norm = is_last ? of.ends_with_norm : of.has_norms;
        row_chain_part part;
        part.layer = {.in_features = in,
                      .out_features = out,
                      .weight = any(in * out, 2 / std::sqrt(static_cast<float>(in))),
                      .bias = i % 3 == 2 ? std::vector<float>() : any(out, 0.5f),
                      .after = has_norm || is_last ? activation::none : of.after};
        if (has_norm)
            part.norm = kernels::row_norm{.scale = any(out, 1.5f),
                                          .shift = i % 2 == 0 ? any(out, 0.5f) : std::vector<float>(),
                                          .epsilon = 1e-3f,
                                          .after = is_last ? activation::none : of.after};
        made.push_back(std::move(part));
    }
    return made;
}

double activated(double x, activation what) {
    switch (what) {
        case activation::relu: return x < 0 ? 0 : x;
        case activation::gelu: return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
        case activation::sigmoid: return 1 / (1 + std::exp(-x));
        case activation::tanh: return std::tanh(x);
        default: return x;
    }
}

// Without any rounding.
std::vector<double> expected_row(const std::vector<row_chain_part>& parts, std::vector<double> row) {
    for (const row_chain_part& each : parts) {
        const mlp_layer& layer = each.layer;
        std::vector<double> next(layer.out_features);
        for (std::size_t o = 0; o < next.size(); ++o) {
            for (std::size_t i = 0; i < row.size(); ++i)
                next[o] += double{layer.weight[o * layer.in_features + i]} * row[i];
            next[o] = activated(next[o] + (layer.bias.empty() ? 0.0 : double{layer.bias[o]}), layer.after);
        }
        if (each.norm) {
            double mean = 0, variance = 0;
            for (const double x : next) mean += x / static_cast<double>(next.size());
            for (const double x : next) variance += (x - mean) * (x - mean) / static_cast<double>(next.size());
            for (std::size_t o = 0; o < next.size(); ++o) {
                next[o] =
                    (next[o] - mean) / std::sqrt(variance + double{each.norm->epsilon}) * double{each.norm->scale[o]} +
                    (each.norm->shift.empty() ? 0.0 : double{each.norm->shift[o]});
                next[o] = activated(next[o], each.norm->after);
            }
        }
        row = std::move(next);
    }
    return row;
}

model model_of(const std::vector<row_chain_part>& parts) {
    model made;
    made.path = "chain.onnx";
    made.opsets = {{"", 20}};
    made.body.inputs = {f32("x", {named("rows"), of(parts.front().layer.in_features)})};
    made.body.outputs = {f32("y", {named("rows"), of(parts.back().layer.out_features)})};
    std::string last = "x";
    const auto add = [&](const std::string& op, std::vector<std::string> inputs) -> node& {
        inputs.insert(inputs.begin(), last);
        last = "v" + std::to_string(made.body.nodes.size());
        made.body.nodes.push_back(make_node(op, std::move(inputs), {last}));
        return made.body.nodes.back();
    };
    const auto add_constant = [&](const std::vector<float>& values, std::vector<std::size_t> shape) {
        std::string name = "c" + std::to_string(made.body.constants.size());
        made.body.constants.emplace(name, tensor_of(values, std::move(shape)));
        return name;
    };
    const auto add_activation = [&](activation what) {
        if (what == activation::relu) add("Relu", {});
        if (what == activation::gelu) add("Gelu", {});
        if (what == activation::sigmoid) add("Sigmoid", {});
        if (what == activation::tanh) add("Tanh", {});
    };
    for (const row_chain_part& each : parts) {
        const mlp_layer& layer = each.layer;
        std::vector<std::string> inputs{add_constant(layer.weight, {layer.out_features, layer.in_features})};
        if (!layer.bias.empty()) inputs.push_back(add_constant(layer.bias, {layer.out_features}));
        add("Gemm", std::move(inputs)).attributes["transB"] = std::int64_t{1};
        add_activation(layer.after);
        if (!each.norm) continue;
        inputs = {add_constant(each.norm->scale, {layer.out_features})};
        if (!each.norm->shift.empty()) inputs.push_back(add_constant(each.norm->shift, {layer.out_features}));
        add("LayerNormalization", std::move(inputs)).attributes["epsilon"] = each.norm->epsilon;
        add_activation(each.norm->after);
    }
    made.body.nodes.back().outputs = {"y"};
    return made;
}

const std::vector<chain_case> cases = {
    {{128, 256, 256, 16}, true, false, activation::gelu, 1},
    {{128, 256, 256, 16}, true, false, activation::gelu, 33},
    {{200, 130, 10}, false, false, activation::relu, 9},
    {{7, 33, 5, 1}, true, true, activation::sigmoid, 13},
    {{31, 65, 129}, false, true, activation::tanh, 8},
    {{1, 1, 1}, true, true, activation::none, 3},
    {{48, 16, 16, 16, 16, 16, 16, 4}, true, false, activation::relu, 5},
    {{100, 600, 20, 300, 2}, true, false, activation::tanh, 77},
    {{129, 40, 300}, true, false, activation::gelu, 300},
};

std::string name_of(const chain_case& of) {
    std::string made;
    for (const std::size_t each : of.widths) made += std::to_string(each) + "-";
    return made + " of " + std::to_string(of.rows) + " rows";
}

// A share of the largest number.
constexpr double allowed(io::dtype type) {
    return type == io::dtype::f32 ? 1e-5 : type == io::dtype::f16 ? 1e-2 : 6e-2;
}

void expect_near(const std::vector<float>& got, const std::vector<double>& expected, double share) {
    ASSERT_EQ(got.size(), expected.size());
    double most = 1e-3;
    for (const double each : expected) most = std::max(most, std::abs(each));
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], share * most) << i;
}

}  // namespace

TEST(row_chains, compute_on_a_cpu_what_f64_gives) {
    unsigned seed = 1;
    for (const chain_case& each : cases) {
        for (const io::dtype type : {io::dtype::f32, io::dtype::f16, io::dtype::bf16}) {
            SCOPED_TRACE(name_of(each));
            numbers any(++seed);
            const auto parts = parts_of(each, any);
            const auto packed = kernels::pack_row_chain(parts, type);
            ASSERT_TRUE(packed);
            const std::vector<float> x = any(each.rows * each.widths.front(), 1);
            std::vector<float> y(each.rows * each.widths.back());
            kernels::row_chain_call call{};
            const launch_command command = kernels::row_chain_command(
                packed->form, {packed->image.data(), x.data(), y.data(), each.rows, true}, call);
            command.host_function(command.closure);
            std::vector<double> expected;
            for (std::size_t r = 0; r < each.rows; ++r) {
                const auto* const from = x.data() + r * each.widths.front();
                const auto row = expected_row(parts, std::vector<double>(from, from + each.widths.front()));
                expected.insert(expected.end(), row.begin(), row.end());
            }
            expect_near(y, expected, allowed(type));
        }
    }
}

TEST(row_chains, are_not_packed_where_layers_do_not_fit) {
    numbers any(1);
    const chain_case of{{8, 16, 4}, true, false, activation::relu, 1};
    EXPECT_TRUE(kernels::pack_row_chain(parts_of(of, any), io::dtype::f16));
    EXPECT_FALSE(kernels::pack_row_chain({}, io::dtype::f16));
    EXPECT_FALSE(kernels::pack_row_chain(parts_of(of, any), io::dtype::f64));
    auto parts = parts_of(of, any);
    parts[1].layer.in_features = 15;
    EXPECT_FALSE(kernels::pack_row_chain(parts, io::dtype::f16));
    parts = parts_of(of, any);
    parts[1].layer.after = activation::softmax;
    EXPECT_FALSE(kernels::pack_row_chain(parts, io::dtype::f16));
    parts = parts_of(of, any);
    parts[0].norm->scale.pop_back();
    EXPECT_FALSE(kernels::pack_row_chain(parts, io::dtype::f16));
    EXPECT_FALSE(kernels::pack_row_chain(
        parts_of({std::vector<std::size_t>(kernels::most_chain_layers + 2, 4), false, false, activation::relu, 1}, any),
        io::dtype::f16));
}

TEST(row_chains, of_networks_give_what_a_cpu_gives) {
    runtime machine;
    round_robin pool(machine.default_device(), 2), on_cpu(machine.find("cpu:0"), 2);
    unsigned seed = 100;
    for (const chain_case& each : cases) {
        numbers any(++seed);
        const auto parts = parts_of(each, any);
        const any_tensor x(any(each.rows * each.widths.front(), 1), {each.rows, each.widths.front()});
        const any_tensor exact = sync(sync(make_network(model_of(parts)), on_cpu).run({x}), on_cpu).at(0);
        for (const auto& [what, type] :
             {std::pair{precision::f32, io::dtype::f32}, std::pair{precision::f16, io::dtype::f16},
              std::pair{precision::bf16, io::dtype::bf16}}) {
            SCOPED_TRACE(name_of(each) + ", " + std::string(to_string(what)));
            const network made = sync(make_network(model_of(parts), {.precision = what}), pool);
            EXPECT_EQ(made.rounding().rounded, what == precision::f32 ? 0 : parts.size());
            const any_tensor got = sync(made.run({x}), pool).at(0);
            expect_near({got.values<float>().begin(), got.values<float>().end()},
                        {exact.values<float>().begin(), exact.values<float>().end()}, allowed(type));
        }
    }
}

// A row has the same result, within what sums in another order give, however many there are: also where a kernel for
// each layer is faster, which rounds what products give and has other limits.
TEST(row_chains, of_any_number_of_rows_round_alike) {
    runtime machine;
    round_robin pool(machine.default_device(), 2);
    for (const bool ends_with_norm : {false, true}) {
        numbers any(7);
        std::vector<row_chain_part> parts(2);
        for (std::size_t i = 0; i < 2; ++i) {
            mlp_layer& of = parts[i].layer;
            of.in_features = i == 0 ? 8 : 16;
            of.out_features = i == 0 ? 16 : 8;
            of.weight = any(of.in_features * of.out_features, 1);
            of.bias = any(of.out_features, 1);
        }
        parts[1].layer.bias[3] = 70000;  // infinite in f16
        if (ends_with_norm) {
            parts[1].layer.bias[3] = 0;
            parts[1].norm = kernels::row_norm{.scale = std::vector<float>(8, 1e5f), .shift = {}};
        }
        const network made = sync(make_network(model_of(parts), {.precision = precision::f16}), pool);
        const std::vector<float> x = any(8, 1);
        std::vector<std::vector<float>> answers;
        for (const std::size_t rows : {64u, 65u, 128u, 129u}) {
            std::vector<float> all;
            for (std::size_t r = 0; r < rows; ++r) all.insert(all.end(), x.begin(), x.end());
            const any_tensor got = sync(made.run({any_tensor(all, {rows, 8})}), pool).at(0);
            answers.emplace_back(got.values<float>().end() - 8, got.values<float>().end());
        }
        for (const std::vector<float>& each : answers) {
            for (std::size_t i = 0; i < 8; ++i) {
                if (std::isinf(answers[0][i])) {
                    EXPECT_EQ(each[i], answers[0][i]) << i;
                } else {
                    EXPECT_NEAR(each[i], answers[0][i], 2e-3 * (ends_with_norm ? 1e5 : 1)) << i;
                }
            }
        }
        const auto is_infinite = [](float one) { return std::isinf(one); };
        if (machine.default_device().kind() == device_kind::cuda) {
            EXPECT_EQ(std::ranges::any_of(answers[0], is_infinite), !ends_with_norm);
        }
    }
}

// A row with a number that is none, or an infinite one, leaves the others as they are.
TEST(row_chains, keep_rows_apart) {
    runtime machine;
    round_robin pool(machine.default_device(), 2);
    numbers any(7);
    const auto parts = parts_of({{40, 200, 72, 6}, true, false, activation::relu, 9}, any);
    std::vector<float> x = any(9 * 40, 1), odd = x;
    odd[3 * 40 + 5] = std::numeric_limits<float>::infinity();
    odd[4 * 40] = std::numeric_limits<float>::quiet_NaN();
    for (const precision what : {precision::f32, precision::f16}) {
        const network made = sync(make_network(model_of(parts), {.precision = what}), pool);
        const auto expected = sync(made.run({any_tensor(x, {9, 40})}), pool).at(0);
        const auto got = sync(made.run({any_tensor(odd, {9, 40})}), pool).at(0);
        for (std::size_t i = 0; i < 9 * 6; ++i) {
            const std::size_t row = i / 6;
            if (row == 3 || row == 4)
                EXPECT_TRUE(std::isnan(got.values<float>()[i])) << i;
            else
                EXPECT_EQ(got.values<float>()[i], expected.values<float>()[i]) << i;
        }
    }
}

// On a GPU that has the kernel: it and the download.
TEST(row_chains, are_one_command) {
    runtime machine;
    const bool has_kernel = machine.default_device().properties().compute_capability >= 90;
    round_robin pool(machine.default_device(), 2);
    numbers any(7);
    const auto parts = parts_of({{128, 256, 256, 16}, true, false, activation::gelu, 1}, any);
    for (const precision what : {precision::f16, precision::bf16, precision::f32}) {
        const network made = sync(make_network(model_of(parts), {.precision = what}), pool);
        EXPECT_EQ(commands_of<float>(made, pool, {8, 128}) == 2, has_kernel);
        EXPECT_GT(commands_of<float>(made, pool, {500, 128}), 4u);
    }
}

}  // namespace sluice::nn::row_chain_tests

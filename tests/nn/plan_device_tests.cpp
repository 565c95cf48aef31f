// SPDX-License-Identifier: Apache-2.0
// Plans of every element type on the default device, a GPU where there is one: eagerly, as graphs, and by the engine.

#include <gtest/gtest.h>

#include "conformance/expect_refused.hpp"
#include "nn/support/reference_network.hpp"
#include "sluice/nn/engine.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/nn/plan.hpp"
#include "sluice/nn/precision.hpp"
#include "sluice/nn/to_model.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice::nn::plan_device_tests {
namespace {

using conformance::expect_close;
using testing::bound;
using testing::doubles;
using testing::floats;
using testing::outputs_of;
using testing::random_floats;
using testing::random_network;
using testing::rounded;
using testing::widened;

template <typename T>
class device_plans : public ::testing::Test {
protected:
    // The network as the device has it: weights and inputs are rounded, the rest is exact.
    static std::vector<mlp_layer> as_rounded(std::vector<mlp_layer> layers) {
        for (mlp_layer& layer : layers) {
            layer.weight = widened(rounded<T>(layer.weight));
            layer.bias = widened(rounded<T>(layer.bias));
        }
        return layers;
    }
    static doubles expected(const std::vector<mlp_layer>& model, const floats& inputs) {
        return outputs_of(as_rounded(model), widened(rounded<T>(inputs)));
    }

    runtime machine;
    device& on = machine.default_device();
    round_robin pool{on, 3};
    random_floats fresh{11};
};
using elements = ::testing::Types<float, half, bfloat16>;
TYPED_TEST_SUITE(device_plans, elements);

}  // namespace

TYPED_TEST(device_plans, give_what_a_reference_in_double_precision_gives) {
    using T = TypeParam;
    const std::vector<std::size_t> shapes[] = {
        {64, 64, 64, 10}, {64, 128, 64, 10}, {200, 256, 10}, {784, 512, 512, 10}, {13, 300, 7}};
    for (const auto& widths : shapes) {
        for (const activation output : {activation::none, activation::softmax}) {
            const auto model = random_network(widths, this->fresh, {.hidden = activation::relu, .output = output});
            const auto network = sync(make_plan<T>(model), this->pool);
            for (const std::size_t rows : {1, 2, 3, 64, 300}) {
                SCOPED_TRACE(::testing::Message()
                             << widths.front() << " to " << widths.back() << " by " << widths.size() << ", "
                             << to_string(output) << ", " << rows << " rows");
                const floats inputs = this->fresh(rows * widths.front());
                const auto forward = [&](auto x) { return network.forward(std::move(x)); };
                const auto got =
                    sync(upload(rounded<T>(inputs), {rows, widths.front()}).and_then(forward).and_then(download),
                         this->pool);
                expect_close(widened(got), this->expected(model, inputs), bound<T>);

                const auto fast = compile_forward_from_host(this->pool, network, rows);
                EXPECT_EQ(widened(sync(fast(rounded<T>(inputs)), this->pool)), widened(got));
                const auto from_device = compile_forward(this->pool, network, rows);
                EXPECT_EQ(
                    widened(sync(upload(rounded<T>(inputs), {rows, widths.front()}).and_then(from_device), this->pool)),
                    widened(got));
            }
        }
    }
}

TYPED_TEST(device_plans, take_a_batch_in_pieces) {
    using T = TypeParam;
    const auto model = random_network({100, 200, 10}, this->fresh, {.hidden = activation::relu});
    const auto network = sync(make_plan<T>(model), this->pool);
    const floats inputs = this->fresh(301 * 100);
    const auto fast = compile_forward_from_host(this->pool, network, 301, {}, {200, 100, 1});
    for (int launch = 0; launch < 3; ++launch)
        expect_close(widened(sync(fast(rounded<T>(inputs)), this->pool)), this->expected(model, inputs), bound<T>);
    conformance::expect_refused(errc::shape_mismatch, {"200 + 100 rows", "[301, 100]"},
                                [&] { compile_forward_from_host(this->pool, network, 301, {}, {200, 100}); });
}

TYPED_TEST(device_plans, take_no_rows) {
    using T = TypeParam;
    const auto network = sync(make_plan<T>(random_network({6, 4, 3}, this->fresh)), this->pool);
    const auto none =
        sync(zeros<T>({0, 6}).and_then([&](auto x) { return network.forward(std::move(x)); }), this->pool);
    EXPECT_EQ(none.shape(), (shape{0, 3}));
}

// In 16 bits a GPU computes layers of up to 128 features by one kernel.
TEST(device_networks, of_narrow_layers_stay_near_the_reference) {
    runtime machine;
    round_robin pool(machine.default_device(), 2);
    random_floats fresh{13};
    const bool is_gpu = machine.default_device().kind() == device_kind::cuda;
    using enum activation;
    for (const auto& widths : {std::vector<std::size_t>{64, 64, 64, 10}, {13, 128, 7}, {1, 2, 3}, {100, 128, 300, 5}}) {
        for (const activation hidden : {relu, tanh, sigmoid, gelu, none}) {
            const auto layers = random_network(widths, fresh, {.hidden = hidden, .has_bias = hidden != tanh});
            for (const auto& [what, allowed] : {std::pair{precision::f16, bound<half>}, {precision::bf16, 3e-2}}) {
                const network made = sync(make_network(to_model(layers), {.precision = what}), pool);
                EXPECT_EQ(made.rounding().rounded, layers.size());
                if (is_gpu && widths.size() == 4 && widths[2] <= 128) {
                    EXPECT_EQ(made.steps().size(), 1u);
                }
                for (const std::size_t rows : {1, 3, 64, 1000}) {
                    const floats inputs = fresh(rows * widths.front());
                    const auto answers = sync(made.run({any_tensor(inputs, {rows, widths.front()})}), pool);
                    const auto numbers = answers.at(0).values<float>();
                    expect_close(floats(numbers.begin(), numbers.end()), outputs_of(layers, inputs), allowed);
                }
            }
        }
    }
}

TEST(device_engine, gives_all_rows_in_order) {
    runtime machine;
    round_robin pool(machine.default_device(), 3);
    random_floats fresh{12};
    for (const auto& widths : {std::vector<std::size_t>{64, 64, 10}, std::vector<std::size_t>{300, 512, 10}}) {
        const auto model = random_network(widths, fresh);
        engine runs({.batch = 32, .in_flight = 4});
        runs.add(sync(make_network(to_model(model)), pool), pool);
        constexpr std::size_t rows = 32 * 20 + 7;
        const floats inputs = fresh(rows * widths.front());
        runs.warm_up(rows);
        floats outputs;
        runs.run(
            rows,
            [&](std::size_t first, std::size_t count) {
                return host_rows(std::span(inputs).subspan(first * widths.front(), count * widths.front()));
            },
            [&](std::size_t first, std::span<const float> some) {
                EXPECT_EQ(first * 10, outputs.size());
                outputs.insert(outputs.end(), some.begin(), some.end());
            });
        expect_close(outputs, outputs_of(model, inputs), 2e-5);
    }
}

}  // namespace sluice::nn::plan_device_tests

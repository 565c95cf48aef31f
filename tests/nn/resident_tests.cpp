// SPDX-License-Identifier: Apache-2.0
// Networks that stay on the default device, a GPU where there is one.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <latch>
#include <optional>
#include <thread>

#include "conformance/expect_refused.hpp"
#include "nn/support/reference_network.hpp"
#include "sluice/kernels/elementwise.hpp"
#include "sluice/kernels/gemm.hpp"
#include "sluice/kernels/softmax.hpp"
#include "sluice/nn/resident.hpp"
#include "sluice/nn/to_model.hpp"
#include "sluice/op/zip.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice::nn::resident_tests {
namespace {

using conformance::expect_close;
using conformance::expect_refused;
using testing::bound;
using testing::doubles;
using testing::floats;
using testing::outputs_of;
using testing::random_floats;
using testing::random_network;
using testing::rounded;
using testing::widened;

// Before the process first uses CUDA, as resident.hpp asks. The test program for CPUs does without.
const int loads_kernels_at_once = setenv("CUDA_MODULE_LOADING", "EAGER", 1);

// As the device has it: weights are rounded, biases are not.
template <typename T>
std::vector<mlp_layer> with_rounded_weights(std::vector<mlp_layer> layers) {
    for (mlp_layer& layer : layers) layer.weight = widened(rounded<T>(layer.weight));
    return layers;
}

template <typename T>
class resident : public ::testing::Test {
protected:
    bool is_on_gpu() const { return on.kind() == device_kind::cuda; }
    bool has_clusters() const { return on.properties().max_blocks_per_cluster > 1; }
    bool has_one_block() const { return is_on_gpu() && std::is_same_v<T, float>; }

    void expect_answers(const resident_network<T>& network, const std::vector<mlp_layer>& model, std::size_t rows) {
        const floats inputs = widened(rounded<T>(fresh(rows * model.front().in_features)));
        std::vector<T> outputs(rows * model.back().out_features);
        network.run(rounded<T>(inputs), outputs);
        expect_close(widened(outputs), outputs_of(with_rounded_weights<T>(model), inputs), bound<T>);
    }

    runtime machine;
    device& on = machine.default_device();
    single_stream pool{on};
    random_floats fresh{17};
};
using elements = ::testing::Types<half, bfloat16, float>;
TYPED_TEST_SUITE(resident, elements);

}  // namespace

TYPED_TEST(resident, gives_what_a_reference_in_double_precision_gives) {
    using T = TypeParam;
    std::vector<std::vector<std::size_t>> shapes = {{64, 64, 64, 10}, {1, 1},   {13, 300, 7},
                                                    {20, 50, 100, 3}, {300, 7}, {33, 17, 9, 5, 3, 2, 1}};
    if (!this->has_one_block()) shapes.push_back({128, 200, 128, 4});  // as floats it fits into no block
    for (const auto& widths : shapes) {
        for (const activation hidden : {activation::relu, activation::gelu, activation::tanh, activation::sigmoid}) {
            for (const activation output : {activation::none, activation::softmax}) {
                const auto model = random_network(widths, this->fresh, {.hidden = hidden, .output = output});
                const resident_network<T> network(this->on, to_model(model));
                EXPECT_EQ(network.in_features(), widths.front());
                EXPECT_EQ(network.out_features(), widths.back());
                for (std::size_t rows = 0; rows <= 8; ++rows) {
                    SCOPED_TRACE(::testing::Message()
                                 << widths.front() << " to " << widths.back() << " by " << widths.size() << ", "
                                 << to_string(hidden) << ", " << to_string(output) << ", " << rows << " rows");
                    this->expect_answers(network, model, rows);
                }
            }
        }
    }
}

TYPED_TEST(resident, has_lanes_of_one_block_or_of_several) {
    using T = TypeParam;
    if (!this->is_on_gpu() || !this->has_clusters()) GTEST_SKIP() << "a GPU with clusters is needed";
    if (this->has_one_block()) GTEST_SKIP() << "a lane of f32 has one block";
    for (const std::size_t blocks : {1, 4, 8, 16}) {
        for (const bool has_bias : {true, false}) {
            // Narrow ones: some blocks have no inputs of some layers.
            for (const auto& widths :
                 std::vector<std::vector<std::size_t>>{{20, 50, 100, 3}, {3, 2}, {64, 64, 64, 10}}) {
                SCOPED_TRACE(::testing::Message() << blocks << " blocks, " << widths.front() << " inputs");
                const auto model = random_network(widths, this->fresh, {.has_bias = has_bias});
                const resident_network<T> network(this->on, to_model(model), {.lanes = 2, .blocks_of_lane = blocks});
                EXPECT_EQ(network.blocks_of_lane(), blocks);
                EXPECT_EQ(network.multiprocessors(), 2 * blocks);
                for (std::size_t i = 0; i < 300; ++i) this->expect_answers(network, model, 1 + i % 8);
            }
        }
    }
}

TYPED_TEST(resident, shares_wide_layers_among_blocks) {
    using T = TypeParam;
    if (this->is_on_gpu() && (!this->has_clusters() || this->has_one_block()))
        GTEST_SKIP() << "the weights do not fit into one block";
    const auto model = random_network({784, 512, 512, 10}, this->fresh, {.output = activation::softmax});
    const resident_network<T> network(this->on, to_model(model));
    if (this->is_on_gpu()) {
        EXPECT_EQ(network.blocks_of_lane(), 16u);
        EXPECT_EQ(network.free_multiprocessors(), static_cast<std::size_t>(this->on.properties().compute_units) - 16);
    }
    for (std::size_t rows = 1; rows <= 8; ++rows) this->expect_answers(network, model, rows);
}

TYPED_TEST(resident, shares_layers_of_many_steps_and_networks_of_many_layers) {
    using T = TypeParam;
    if (!this->is_on_gpu() || !this->has_clusters()) GTEST_SKIP() << "a GPU with clusters is needed";
    if (this->has_one_block()) GTEST_SKIP() << "a lane of f32 has one block";
    // Slices of more inputs than a warp keeps weights of, more tiles than two for each warp, and more layers than the
    // kernels know when they are compiled.
    for (const auto& widths :
         std::vector<std::vector<std::size_t>>{{300, 500, 40, 10}, {100, 600, 10}, {33, 17, 90, 50, 130, 20, 4}}) {
        for (const std::size_t blocks : {4, 8, 16}) {
            SCOPED_TRACE(::testing::Message() << blocks << " blocks, " << widths.front() << " inputs");
            const auto model = random_network(widths, this->fresh, {.output = activation::softmax});
            const resident_network<T> network(this->on, to_model(model), {.blocks_of_lane = blocks});
            for (std::size_t i = 0; i < 40; ++i) this->expect_answers(network, model, 1 + i % 8);
        }
    }
}

TYPED_TEST(resident, is_an_operation) {
    using T = TypeParam;
    const auto model = random_network({64, 64, 10}, this->fresh);
    const resident_network<T> network(this->on, to_model(model));
    for (int i = 0; i < 20; ++i) {
        const floats inputs = widened(rounded<T>(this->fresh(2 * 64)));
        const std::vector<T> outputs = sync(network(rounded<T>(inputs)), this->pool);
        expect_close(widened(outputs), outputs_of(with_rounded_weights<T>(model), inputs), bound<T>);
    }
    // The network is kept by what uses it.
    auto operation = resident_network<T>(this->on, to_model(model))(rounded<T>(this->fresh(64)));
    EXPECT_EQ(sync(std::move(operation), this->pool).size(), 10u);
    EXPECT_THROW(sync(network(std::vector<T>(9 * 64 + 1)), this->pool), error);  // in the host call
    resident_network<T> moved = network;
    const resident_network<T> last = std::move(moved);
    std::vector<T> outputs(10);
    expect_refused(errc::invalid_argument, {"a resident network"},
                   [&] { moved.run(std::vector<T>(64), outputs); });  // NOLINT(bugprone-use-after-move)
}

TYPED_TEST(resident, answers_many_threads) {
    using T = TypeParam;
    const auto model = random_network({32, 32, 4}, this->fresh);
    const resident_network<T> network(this->on, to_model(model), {.lanes = 3, .rows = 2});
    constexpr std::size_t threads = 8;
    const unsigned rounds = this->is_on_gpu() ? 3000 : 300;
    // Each thread has inputs of its own, and gets the answer to these.
    std::vector<std::vector<T>> inputs(threads), expected(threads);
    for (std::size_t i = 0; i < threads; ++i) {
        inputs[i] = rounded<T>(this->fresh(64));
        expected[i].resize(8);
        network.run(inputs[i], expected[i]);
    }
    std::atomic<unsigned> wrong{0};
    std::vector<std::jthread> all;
    for (std::size_t i = 0; i < threads; ++i) {
        all.emplace_back([&, i] {
            std::vector<T> outputs(8);
            for (unsigned round = 0; round < rounds; ++round) {
                network.run(inputs[i], outputs);
                if (std::memcmp(outputs.data(), expected[i].data(), 8 * sizeof(T)) != 0) ++wrong;
            }
        });
    }
    all.clear();
    EXPECT_EQ(wrong, 0u);
}

TYPED_TEST(resident, takes_other_weights_while_it_answers) {
    using T = TypeParam;
    const auto first = random_network({64, 48, 10}, this->fresh), second = random_network({64, 48, 10}, this->fresh);
    const resident_network<T> network(this->on, to_model(first), {.lanes = 2});
    const std::vector<T> inputs = rounded<T>(this->fresh(64));
    const auto answer = [&] {
        std::vector<T> outputs(10);
        network.run(inputs, outputs);
        return widened(outputs);
    };
    const floats of_first = answer();
    network.update(to_model(second));
    const floats of_second = answer();
    EXPECT_NE(of_first, of_second);
    this->expect_answers(network, second, 3);

    std::atomic<bool> is_over{false};
    std::atomic<unsigned> mixed{0};
    {
        std::vector<std::jthread> readers;
        for (int i = 0; i < 3; ++i) {
            readers.emplace_back([&] {
                while (!is_over) {
                    const floats now = answer();
                    if (now != of_first && now != of_second) ++mixed;
                }
            });
        }
        for (int i = 0; i < 20; ++i) {
            network.update(to_model(i % 2 == 0 ? first : second));
            EXPECT_EQ(answer(), i % 2 == 0 ? of_first : of_second);
        }
        is_over = true;
    }
    EXPECT_EQ(mixed, 0u);

    expect_refused(errc::invalid_argument, {"other layers"},
                   [&] { network.update(to_model(random_network({64, 49, 10}, this->fresh))); });
    expect_refused(errc::invalid_argument, {"other layers"}, [&] {
        network.update(to_model(random_network({64, 48, 10}, this->fresh, {.hidden = activation::tanh})));
    });
    EXPECT_EQ(answer(), of_second);
}

TYPED_TEST(resident, leaves_the_device_to_other_work) {
    using T = TypeParam;
    const auto multiply = [&](std::size_t size) {
        const floats a = this->fresh(size * size);
        const auto product = sync(zip(upload(a, {size, size}), upload(a, {size, size})).and_then([](auto x, auto y) {
            return gemm(std::move(x), std::move(y)).and_then(gelu).and_then(softmax).and_then(download);
        }),
                                  this->pool);
        EXPECT_EQ(product.size(), size * size);
    };
    multiply(16);
    const auto model = random_network({64, 64, 10}, this->fresh);
    const resident_network<T> network(this->on, to_model(model), {.lanes = 2});
    for (int i = 0; i < 20; ++i) {
        const floats x = this->fresh(std::size_t{1000} << i % 8);
        EXPECT_EQ(sync(upload(x).and_then(download), this->pool), x);
        this->on.synchronize();
        this->on.trim();
        this->expect_answers(network, model, 1);
    }
    // Kernels of the library and of cuBLASLt that have not run in this process yet.
    for (const std::size_t size : {33, 128, 1000}) multiply(size);
    this->expect_answers(network, model, 1);
    if (!this->is_on_gpu()) return;
    // What would wait for the network's end is refused.
    runtime other;
    single_stream others(other.default_device());
    expect_refused(errc::unsupported, {"cannot create a handle of cuBLASLt", "stays"}, [&] {
        const floats a(16);
        sync(zip(upload(a, {4, 4}), upload(a, {4, 4})).and_then([](auto x, auto y) {
            return gemm(std::move(x), std::move(y)).and_then(download);
        }),
             others);
    });
}

TYPED_TEST(resident, ends_at_every_moment) {
    using T = TypeParam;
    const auto model = random_network({64, 64, 10}, this->fresh);
    for (int i = 0; i < 30; ++i) {
        const resident_network<T> never_asked(this->on, to_model(model));
        resident_network<T> network(this->on, to_model(model), {.pause = std::chrono::microseconds(i)});
        if (i % 2 == 0) this->expect_answers(network, model, 1);
        const resident_network<T> copy = network;
        network = resident_network<T>(this->on, to_model(model));
        this->expect_answers(copy, model, 2);
    }
    // Threads that ask while the runtime is destroyed get an answer or the reason.
    for (int i = 0; i < 10; ++i) {
        std::optional<runtime> other(std::in_place);
        const resident_network<T> network(other->default_device(), to_model(model), {.lanes = 2});
        std::latch begun(3);
        std::atomic<unsigned> others{0};
        std::vector<std::jthread> all;
        for (int thread = 0; thread < 3; ++thread) {
            all.emplace_back([&] {
                std::vector<T> inputs(64), outputs(10);
                begun.count_down();
                try {
                    for (;;) network.run(inputs, outputs);
                } catch (const error& refusal) {
                    if (refusal.code() != errc::runtime_closed) ++others;
                }
            });
        }
        begun.wait();
        other.reset();
        all.clear();
        EXPECT_EQ(others, 0u);
    }
}

TYPED_TEST(resident, refuses_what_it_cannot_do) {
    using T = TypeParam;
    const auto model = random_network({64, 64, 10}, this->fresh);
    const auto refused = [&](errc code, const resident_options& options, const std::string& why) {
        expect_refused(code, {"resident_network", why},
                       [&] { resident_network<T>(this->on, to_model(model), options); });
    };
    ASSERT_EQ(loads_kernels_at_once, 0);
    refused(errc::invalid_argument, {.lanes = 0}, "lanes is 0");
    refused(errc::invalid_argument, {.pause = std::chrono::seconds(1)}, "pause");
    refused(errc::invalid_argument, {.longest_wait = {}}, "longest_wait");
    const resident_network<T> network(this->on, to_model(model), {.rows = 2});
    std::vector<T> outputs(10);
    expect_refused(errc::shape_mismatch, {"63 inputs", "10 outputs"},
                   [&] { network.run(std::vector<T>(63), outputs); });
    expect_refused(errc::shape_mismatch, {"128 inputs", "10 outputs"},
                   [&] { network.run(std::vector<T>(128), outputs); });
    std::vector<mlp_layer> inner = random_network({8, 8, 8}, this->fresh, {.hidden = activation::softmax});
    expect_refused(errc::invalid_argument, {"layer 1", "softmax"},
                   [&] { resident_network<T>(this->on, to_model(inner)); });
    if (!this->is_on_gpu()) return;
    refused(errc::invalid_argument, {.rows = 9}, "rows is 9; 1 to 8");
    refused(errc::invalid_argument, {.blocks_of_lane = 3}, "0, 1, 4, 8 and 16");
    refused(errc::invalid_argument, {.lanes = 100000}, "multiprocessors");
    std::vector<T> three(30);
    expect_refused(errc::invalid_argument, {"3 rows", "resident_options::rows says 2"},
                   [&] { network.run(std::vector<T>(3 * 64), three); });
    const auto wide = random_network({2048, 2048, 2048}, this->fresh);
    expect_refused(errc::unsupported, {"bytes of shared memory"},
                   [&] { resident_network<T>(this->on, to_model(wide)); });
    if (this->has_one_block()) refused(errc::unsupported, {.blocks_of_lane = 4}, "a lane of f32 has one block, not 4");
    runtime blocking({.blocks_each_command = true});
    expect_refused(errc::unsupported, {"blocks_each_command"},
                   [&] { resident_network<T>(blocking.default_device(), to_model(model)); });
}

}  // namespace sluice::nn::resident_tests

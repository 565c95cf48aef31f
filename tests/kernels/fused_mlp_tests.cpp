// SPDX-License-Identifier: Apache-2.0
#include "sluice/kernels/fused_mlp.hpp"

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "kernels/fused_mlp_reference.hpp"
#include "sluice/kernels/elementwise.hpp"

namespace sluice::conformance::fused_mlp_tests {
namespace {

using features = std::vector<std::size_t>;

class fused_mlps : public conformance_test {
protected:
    bool takes(bool is_float) const { return !is_float || on.kind() == device_kind::cpu; }

    template <typename T>
    std::vector<T> run(const std::vector<mlp_layer>& layers, const std::vector<T>& inputs) {
        const std::size_t in = layers.front().in_features, out = layers.back().out_features;
        const auto network = sluice::sync(pack_mlp<T>(layers), pool);
        const auto x = sync(share(upload(inputs, {inputs.size() / in, in})), pool);
        auto result = tensor<T>(home, {inputs.size() / in, out});
        fill_with_nan(result);
        fused_mlp(home, *x, network, result);
        return contents(std::move(result), home);
    }

    template <typename T>
    void fill_with_nan(tensor<T>& x) {
        if (x.size() == 0) return;
        const T poison(nan);
        fill_elements(home, *x.memory(), x.size(), &poison, sizeof(T));
    }

    template <typename T>
    void expect_agreement(const features& widths, std::size_t rows, activation hidden, activation last,
                          bool biased = true) {
        if (!takes(std::same_as<T, float>)) return;
        SCOPED_TRACE(testing::Message() << testing::PrintToString(widths) << " rows " << rows << " "
                                        << to_string(hidden) << " " << to_string(last) << " of " << sizeof(T)
                                        << " bytes" << (std::same_as<T, bfloat16> ? " (bf16)" : ""));
        const auto layers = random_network(fresh, widths, hidden, last, biased);
        const auto inputs = rounded<T>(fresh(rows * widths.front()));
        expect_close(as_floats(run(layers, inputs)), network_reference(layers, inputs), fused_bound<T>);
    }

    void expect_agreement_of_all_types(const features& widths, std::size_t rows, activation hidden, activation last,
                                       bool biased = true) {
        expect_agreement<half>(widths, rows, hidden, last, biased);
        expect_agreement<bfloat16>(widths, rows, hidden, last, biased);
        expect_agreement<float>(widths, rows, hidden, last, biased);
    }

    random_floats fresh{2026};
    round_robin pool{on, 2};
    stream home = pool.next();
};
INSTANTIATE_TEST_SUITE_P(, fused_mlps, testing::ValuesIn(enrolled_backends()), backend_name);

}  // namespace

TEST_P(fused_mlps, agree_with_the_reference_in_every_width_and_depth) {
    for (const std::size_t width : {16, 32, 64, 128, 256}) {
        for (const std::size_t hidden_layers : {1, 2, 5, 8}) {
            expect_agreement_of_all_types(features(hidden_layers + 2, width), 130, activation::relu, activation::none);
        }
    }
}

TEST_P(fused_mlps, agree_with_the_reference_at_ragged_sizes) {
    for (const features& widths : {features{1, 1}, features{3, 5, 2}, features{64, 64, 64, 10}, features{7, 100, 33, 1},
                                   features{200, 17, 256, 31}, features{33, 64, 64, 40}, features{96, 96, 96, 96},
                                   features{256, 10}, features{8, 256, 256, 256, 24}}) {
        for (const std::size_t rows : {1, 15, 64, 65, 300}) {
            expect_agreement_of_all_types(widths, rows, activation::relu, activation::none);
        }
    }
}

TEST_P(fused_mlps, agree_with_the_reference_after_every_activation) {
    for (const features& widths : {features{20, 32, 32, 9}, features{64, 64, 64, 64}, features{128, 128, 128, 50}}) {
        for (const activation hidden :
             {activation::none, activation::relu, activation::gelu, activation::sigmoid, activation::tanh}) {
            expect_agreement_of_all_types(widths, 77, hidden, activation::softmax);
            expect_agreement_of_all_types(widths, 77, activation::relu, hidden);
        }
        expect_agreement_of_all_types(widths, 77, activation::relu, activation::none, false);
    }
}

TEST_P(fused_mlps, agree_with_the_reference_over_many_rows) {
    for (const std::size_t width : {32, 64, 128, 256}) {
        expect_agreement<half>(features(5, width), on.kind() == device_kind::cpu ? 700 : 60'001, activation::relu,
                               activation::none);
    }
}

TEST_P(fused_mlps, may_follow_each_layer_by_another_activation) {
    auto layers = random_network(fresh, {30, 40, 50, 20, 12}, activation::relu, activation::sigmoid);
    layers[0].after = activation::tanh;
    layers[2].after = activation::gelu;
    layers[1].bias.clear();
    const auto inputs = rounded<half>(fresh(91 * 30));
    expect_close(as_floats(run(layers, inputs)), network_reference(layers, inputs), fused_bound<half>);
}

TEST_P(fused_mlps, may_be_wide_on_a_cpu) {
    if (on.kind() != device_kind::cpu) GTEST_SKIP() << "on a GPU that is refused: see that_cannot_be_are_refused";
    for (const features& widths : {features{300, 700, 257, 5}, features{2048, 3, 2048}}) {
        for (const std::size_t rows : {1, 3, 49}) {
            expect_agreement_of_all_types(widths, rows, activation::relu, activation::sigmoid);
        }
    }
}

TEST_P(fused_mlps, keep_nan_in_its_row) {
    const auto layers = random_network(fresh, {64, 64, 64, 16}, activation::relu, activation::softmax);
    auto inputs = rounded<half>(fresh(70 * 64));
    inputs[66 * 64 + 5] = half(nan);
    const auto got = run(layers, inputs);
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(std::isnan(float{got[i]}), i / 16 == 66) << i;
}

TEST_P(fused_mlps, are_operations) {
    const auto layers = random_network(fresh, {64, 64, 64, 10}, activation::relu, activation::none);
    const auto inputs = rounded<bfloat16>(fresh(33 * 64));
    auto all = zip(upload(inputs, {33, 64}), pack_mlp<bfloat16>(layers)).and_then([](auto x, auto network) {
        return fused_mlp(std::move(x), std::move(network));
    });
    const auto got = sync(std::move(all).and_then(download), pool);
    expect_close(as_floats(got), network_reference(layers, inputs), fused_bound<bfloat16>);
}

TEST_P(fused_mlps, of_no_rows_are_empty) {
    const auto layers = random_network(fresh, {4, 4, 2}, activation::relu, activation::none);
    EXPECT_TRUE(run(layers, std::vector<half>{}).empty());
}

TEST_P(fused_mlps, that_cannot_be_are_refused) {
    const auto good = [&] { return random_network(fresh, {8, 8, 8}, activation::relu, activation::none); };
    const auto expect = [&](std::vector<mlp_layer> layers, const char* why) {
        expect_refused_here(errc::invalid_argument, {"pack_mlp", why},
                            [&] { sync_on(pack_mlp<half>(std::move(layers)), home); });
    };
    expect({}, "0 layers");
    expect(random_network(fresh, features(11, 4), activation::relu, activation::none), "10 layers");
    const std::size_t too_wide = on.kind() == device_kind::cuda ? 257 : 2049;
    expect(random_network(fresh, {8, too_wide, 8}, activation::relu, activation::none),
           (std::to_string(too_wide) + " features").c_str());
    auto broken = good();
    broken[1].in_features = 7;
    broken[1].weight.resize(56);
    expect(broken, "layer 1 makes 8 features, the next takes 7");
    broken = good();
    broken[1].weight.pop_back();
    expect(broken, "layer 2 has 63 weights instead of 64");
    broken = good();
    broken[0].bias.pop_back();
    expect(broken, "7 biases instead of 8");
    broken = good();
    broken[0].after = activation::softmax;
    expect(broken, "softmax");
    broken = good();
    broken[0] = {0, 8, {}, {}, activation::none};
    expect(broken, "0 features");
}

TEST_P(fused_mlps, with_tensors_that_do_not_fit_are_refused_before_anything_is_submitted) {
    const auto network =
        sluice::sync(pack_mlp<half>(random_network(fresh, {8, 8, 4}, activation::relu, activation::none)), pool);
    const auto narrow = sync(zeros<half>({3, 7}), pool), right = sync(zeros<half>({3, 8}), pool);
    auto out = sync(zeros<half>({3, 4}), pool), wrong = sync(zeros<half>({2, 4}), pool);
    const ticket before = home.issued();
    expect_refused_here(errc::shape_mismatch, {"fused_mlp", "[rows, 8]", "[3, 7]", GetParam().device},
                        [&] { fused_mlp(home, narrow, network, out); });
    expect_refused_here(errc::shape_mismatch, {"[3, 4]", "[2, 4]"}, [&] { fused_mlp(home, right, network, wrong); });
    EXPECT_EQ(home.issued(), before);
}

TEST_P(fused_mlps, of_floats_run_on_a_cpu_only) {
    const auto layers = random_network(fresh, {8, 8, 4}, activation::relu, activation::none);
    if (on.kind() == device_kind::cpu) {
        const auto inputs = fresh(5 * 8);
        expect_close(run<float>(layers, inputs), network_reference(layers, inputs));
    } else {
        expect_refused(errc::unsupported, {"pack_mlp", "float"}, [&] { sluice::sync(pack_mlp<float>(layers), pool); });
    }
}

}  // namespace sluice::conformance::fused_mlp_tests

// SPDX-License-Identifier: Apache-2.0
// The kernels of fused_mlp for GPUs other than Hopper's, on whatever GPU is there.
#include <array>

#include "conformance/backend.hpp"
#include "kernels/fused_mlp/fused_mlp_cuda.hpp"
#include "kernels/fused_mlp_reference.hpp"
#include "sluice/kernels/elementwise.hpp"

namespace sluice::conformance::fused_mlp_mma_tests {
namespace {

CONFORMANCE_SUITE(fused_mlps_with_mma);

template <typename T>
floats run(stream on, const packed_mlp<T>& network, const tensor<T>& x) {
    tensor<T> out(on, {x.rows(), network.out_features()});
    const T poison(nan);
    fill_elements(on, *out.memory(), out.size(), &poison, sizeof(T));
    const kernels::fused_mlp_call call{x.device_data(), out.device_data(), network.image().device_data(), x.rows(),
                                       network.form()};
    launch_command command = kernels::fused_mlp_with_mma(call, kernels::fused_type_of<T>, on.owner().properties());
    command.closure = &call;
    command.closure_bytes = sizeof(call);
    const std::array accesses{memory_access{x.memory(), access_mode::read},
                              memory_access{network.image().memory(), access_mode::read},
                              memory_access{out.memory(), access_mode::write}};
    on.launch({"fused_mlp", accesses}, command);
    return as_floats(contents(std::move(out), on));
}

template <typename T>
void expect_agreement(stream on, random_floats& fresh, const std::vector<std::size_t>& widths, std::size_t rows,
                      activation last) {
    SCOPED_TRACE(testing::Message() << testing::PrintToString(widths) << " rows " << rows);
    const auto layers = random_network(fresh, widths, activation::relu, last);
    const auto inputs = rounded<T>(fresh(rows * widths.front()));
    const auto network = sync_on(pack_mlp<T>(layers), on);
    const auto x = sync_on(upload(inputs, {rows, widths.front()}), on);
    expect_close(run(on, network, x), network_reference(layers, inputs), fused_bound<T>);
}

}  // namespace

TEST_P(fused_mlps_with_mma, agree_with_the_reference) {
    random_floats fresh{5};
    single_stream pool(on);
    for (const std::vector<std::size_t>& widths :
         {std::vector<std::size_t>{3, 5, 2}, std::vector<std::size_t>(4, 32), std::vector<std::size_t>(6, 64),
          std::vector<std::size_t>{64, 64, 64, 10}, std::vector<std::size_t>(10, 128), std::vector<std::size_t>(4, 256),
          std::vector<std::size_t>{200, 17, 256, 31}}) {
        for (const std::size_t rows : {1, 128, 1000}) {
            expect_agreement<half>(pool.next(), fresh, widths, rows, activation::none);
            expect_agreement<bfloat16>(pool.next(), fresh, widths, rows, activation::softmax);
        }
    }
}

TEST_P(fused_mlps_with_mma, let_an_infinity_through_neurons_that_only_fill_the_width) {
    random_floats fresh{6};
    single_stream pool(on);
    stream home = pool.next();
    for (const std::vector<std::size_t>& widths :
         {std::vector<std::size_t>(4, 20), std::vector<std::size_t>(3, 50), std::vector<std::size_t>(3, 101),
          std::vector<std::size_t>{5, 256, 130, 3}}) {
        auto layers = random_network(fresh, widths, activation::relu, activation::none);
        for (mlp_layer& each : layers) each.weight.assign(each.weight.size(), 1 / static_cast<float>(each.in_features));
        auto inputs = rounded<half>(fresh(20 * widths.front()));
        inputs[7 * widths.front()] = half(infinity);
        const auto network = sync_on(pack_mlp<half>(layers), home);
        const floats got = run(home, network, sync_on(upload(inputs, {20, widths.front()}), home));
        for (std::size_t i = 0; i < got.size(); ++i) {
            EXPECT_EQ(got[i] == infinity, i / widths.back() == 7) << got[i];
            EXPECT_FALSE(std::isnan(got[i])) << i;
        }
    }
}

}  // namespace sluice::conformance::fused_mlp_mma_tests

// The kernels of fused_mlp for GPUs other than Hopper's, on whatever GPU is there.
#include <array>

#include "conformance/backend.hpp"
#include "kernels/fused_mlp_cuda.hpp"
#include "kernels/fused_mlp_reference.hpp"
#include "sluice/kernels/elementwise.hpp"

namespace sluice::conformance {
namespace {

CONFORMANCE_SUITE(fused_mlps_with_mma);

template <typename T>
floats run(stream& on, const packed_mlp<T>& network, const tensor<T>& x) {
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
void expect_agreement(stream& on, random_floats& fresh, const std::vector<std::size_t>& widths, std::size_t rows,
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

}  // namespace sluice::conformance

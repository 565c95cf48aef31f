// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/product_end.hpp"

#include <array>

#include "sluice/base/half.hpp"
#include "sluice/kernels/activated.hpp"
#include "sluice/kernels/whole_tensor.hpp"
#include "sluice/runtime/launch.hpp"

namespace sluice::kernels {
namespace {

struct rectify_element {
    template <typename T>
    SLUICE_KERNEL T operator()(T x) const {
        return static_cast<float>(x) < 0 ? T(0.0f) : x;  // NaN stays as it is
    }
};

template <typename T>
struct bias_alone {
    const T* bias;  // or null
    std::size_t columns;
    activation after;

    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<T> out) const {
        T* const element = out.at(at);
        if (element == nullptr) return;
        const float sum = bias != nullptr ? static_cast<float>(bias[at.value() % columns]) : 0.0f;
        *element = T(activated(sum, after));
    }
};

}  // namespace

template <typename T>
void rectify(stream on, tensor<T>& x, const source_location& location) {
    using closure = whole_tensor<rectify_element, T, T, 1>;
    const std::array accesses{memory_access{x.memory(), access_mode::write}};
    launch_whole_tensor(on, {"relu", accesses, location}, closure{x.size(), x.device_data(), {x.device_data()}, {}});
}

template <typename T>
void finish_empty_product(stream on, const tensor<T>* bias, tensor<T>& out, activation after,
                          const source_location& location) {
    const bias_alone<T> kernel{bias != nullptr ? bias->device_data() : nullptr, out.columns(), after};
    const auto values = detail::make_kernel_values(disjoint_view<T>(out.device_data(), out.size()));
    using body = detail::launch_body<bias_alone<T>, index_1d, decltype(values)>;
    typename body::closure closure{out.size(), 1, values, kernel};
    const std::array accesses{memory_access{bias != nullptr ? bias->memory() : nullptr, access_mode::read},
                              memory_access{out.memory(), access_mode::write}};
    on.launch({"gemm", accesses, location}, body::command(closure));
}

template void rectify(stream, tensor<float>&, const source_location&);
template void rectify(stream, tensor<half>&, const source_location&);
template void rectify(stream, tensor<bfloat16>&, const source_location&);
template void finish_empty_product(stream, const tensor<float>*, tensor<float>&, activation, const source_location&);
template void finish_empty_product(stream, const tensor<half>*, tensor<half>&, activation, const source_location&);
template void finish_empty_product(stream, const tensor<bfloat16>*, tensor<bfloat16>&, activation,
                                   const source_location&);

}  // namespace sluice::kernels

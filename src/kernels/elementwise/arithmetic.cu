// SPDX-License-Identifier: Apache-2.0
// add, subtract, multiply and scale: what is done to an element; whole_tensor.hpp does the rest.
#include "sluice/kernels/arithmetic.hpp"

#include <array>
#include <span>

#include "sluice/base/error.hpp"
#include "sluice/kernels/whole_tensor.hpp"

namespace sluice {
namespace {

// Of ints as of unsigned ones, which wrap around.
template <arithmetic What, typename T>
struct combine_elements {
    template <typename Number>
    SLUICE_KERNEL static Number of(Number x, Number y) {
        if constexpr (What == arithmetic::add) return x + y;
        if constexpr (What == arithmetic::subtract) return x - y;
        if constexpr (What == arithmetic::multiply) return x * y;
    }
    SLUICE_KERNEL T operator()(T x, T y) const {
        if constexpr (std::same_as<T, int>) {
            return static_cast<int>(of(static_cast<unsigned>(x), static_cast<unsigned>(y)));
        } else {
            return T(of(static_cast<float>(x), static_cast<float>(y)));
        }
    }
};

template <typename T>
struct scale_element {
    detail::factor_for<T> factor;
    SLUICE_KERNEL T operator()(T x) const {
        if constexpr (std::same_as<T, int>) {
            return static_cast<int>(static_cast<unsigned>(x) * static_cast<unsigned>(factor));
        } else {
            return T(static_cast<float>(x) * factor);
        }
    }
};

template <arithmetic What, typename T>
void combine_as(stream on, tensor<T>& x, const tensor<T>& y, const command_info& info) {
    using closure = kernels::whole_tensor<combine_elements<What, T>, T, T, 2>;
    kernels::launch_whole_tensor(on, info, closure{x.size(), x.device_data(), {x.device_data(), y.device_data()}, {}});
}

}  // namespace

template <detail::arithmetic_element T>
void combine(stream on, arithmetic what, tensor<T>& x, const tensor<T>& y, source_location location) {
    constexpr std::string_view names[] = {"add", "subtract", "multiply"};
    const std::string_view name = names[static_cast<std::size_t>(what)];
    if (x.shape() != y.shape()) {
        throw error(errc::shape_mismatch, to_string(x.shape()) + " and " + to_string(y.shape()),
                    {name, on.owner().name(), location});
    }
    // What is written may be read as well.
    const std::array accesses{memory_access{x.memory(), access_mode::write},
                              memory_access{y.memory(), access_mode::read}};
    const std::size_t distinct = x.memory() == y.memory() ? 1 : 2;
    const command_info info{name, std::span(accesses).first(distinct), location};
    switch (what) {
        case arithmetic::add: return combine_as<arithmetic::add>(on, x, y, info);
        case arithmetic::subtract: return combine_as<arithmetic::subtract>(on, x, y, info);
        case arithmetic::multiply: return combine_as<arithmetic::multiply>(on, x, y, info);
    }
}

template <detail::arithmetic_element T>
void scale(stream on, tensor<T>& x, detail::factor_for<T> factor, source_location location) {
    using closure = kernels::whole_tensor<scale_element<T>, T, T, 1>;
    const std::array accesses{memory_access{x.memory(), access_mode::write}};
    kernels::launch_whole_tensor(on, {"scale", accesses, location},
                                 closure{x.size(), x.device_data(), {x.device_data()}, {factor}});
}

void detail::refuse_factor(const std::string& factor, const source_location& location) {
    throw error(errc::invalid_argument, "a factor of " + factor + " for a tensor of int: -2147483648 to 2147483647",
                {"scale", {}, location});
}

template void combine(stream, arithmetic, tensor<float>&, const tensor<float>&, source_location);
template void combine(stream, arithmetic, tensor<half>&, const tensor<half>&, source_location);
template void combine(stream, arithmetic, tensor<bfloat16>&, const tensor<bfloat16>&, source_location);
template void combine(stream, arithmetic, tensor<int>&, const tensor<int>&, source_location);
template void scale(stream, tensor<float>&, float, source_location);
template void scale(stream, tensor<half>&, float, source_location);
template void scale(stream, tensor<bfloat16>&, float, source_location);
template void scale(stream, tensor<int>&, int, source_location);

}  // namespace sluice

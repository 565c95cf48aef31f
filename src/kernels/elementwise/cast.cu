// SPDX-License-Identifier: Apache-2.0
// cast: what is done to an element; whole_tensor.hpp does the rest.
#include "sluice/kernels/cast.hpp"

#include <array>

#include "base/before_rounding.hpp"
#include "sluice/kernels/whole_tensor.hpp"

namespace sluice {
namespace {

template <typename To>
struct cast_element {
    template <typename From>
    SLUICE_KERNEL To operator()(From x) const {
        if constexpr (std::same_as<To, int>) {
            const float value = static_cast<float>(x);
            if (value != value) return 0;
            if (value >= 0x1p31f) return 0x7fff'ffff;
            if (value < -0x1p31f) return -0x7fff'ffff - 1;
            return static_cast<int>(value);
        } else if constexpr (std::same_as<To, float> || !std::same_as<From, int>) {
            return To(static_cast<float>(x));
        } else {
            return To(detail::before_rounding(x));
        }
    }
};

}  // namespace

template <typename From, detail::castable_from<From> To>
void cast(stream on, const tensor<From>& x, tensor<To>& out, source_location location) {
    if (x.shape() != out.shape()) {
        throw error(errc::shape_mismatch, to_string(x.shape()) + " into " + to_string(out.shape()),
                    {"cast", on.owner().name(), location});
    }
    using closure = kernels::whole_tensor<cast_element<To>, To, From, 1>;
    const std::array accesses{memory_access{x.memory(), access_mode::read},
                              memory_access{out.memory(), access_mode::write}};
    kernels::launch_whole_tensor(on, {"cast", accesses, location},
                                 closure{x.size(), out.device_data(), {x.device_data()}, {}});
}

template void cast(stream, const tensor<float>&, tensor<half>&, source_location);
template void cast(stream, const tensor<float>&, tensor<bfloat16>&, source_location);
template void cast(stream, const tensor<float>&, tensor<int>&, source_location);
template void cast(stream, const tensor<half>&, tensor<float>&, source_location);
template void cast(stream, const tensor<half>&, tensor<bfloat16>&, source_location);
template void cast(stream, const tensor<half>&, tensor<int>&, source_location);
template void cast(stream, const tensor<bfloat16>&, tensor<float>&, source_location);
template void cast(stream, const tensor<bfloat16>&, tensor<half>&, source_location);
template void cast(stream, const tensor<bfloat16>&, tensor<int>&, source_location);
template void cast(stream, const tensor<int>&, tensor<float>&, source_location);
template void cast(stream, const tensor<int>&, tensor<half>&, source_location);
template void cast(stream, const tensor<int>&, tensor<bfloat16>&, source_location);

}  // namespace sluice

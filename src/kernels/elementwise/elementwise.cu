// SPDX-License-Identifier: Apache-2.0
// Activations and full, one source for both sides.
#include "sluice/kernels/elementwise.hpp"

#include <array>
#include <cstdint>
#include <cstring>

#include "sluice/kernels/activated.hpp"
#include "sluice/kernels/softmax.hpp"
#include "sluice/kernels/whole_tensor.hpp"
#include "sluice/runtime/launch.hpp"

namespace sluice {
namespace {

template <activation What>
struct activated_element {
    SLUICE_KERNEL float operator()(float x) const { return kernels::activated<What>(x); }
};

template <activation What>
void activate_elements(stream on, tensor<float>& x, const source_location& location) {
    kernels::update_elements(on, x, to_string(What), location, activated_element<What>{});
}

template <typename T>
struct fill_kernel {
    T value;
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<T> x) const {
        if (T* const e = x.at(at)) *e = value;
    }
};

// The one launch that names storage instead of a tensor: the element type is known by its size only.
template <typename T>
void fill_with(stream on, storage& x, std::size_t count, const void* value, const source_location& location) {
    fill_kernel<T> kernel{};
    std::memcpy(&kernel.value, value, sizeof(T));
    const auto values = detail::make_kernel_values(disjoint_view<T>(static_cast<T*>(x.data()), count));
    using body = detail::launch_body<fill_kernel<T>, index_1d, decltype(values)>;
    typename body::closure closure{count, 1, values, kernel};
    const std::array accesses{memory_access{&x, access_mode::write}};
    on.launch({"full", accesses, location}, body::command(closure));
}

}  // namespace

void detail::activate(stream on, tensor<float>& x, const source_location& location, activation what) {
    switch (what) {
        case activation::none: return;
        case activation::relu: return activate_elements<activation::relu>(on, x, location);
        case activation::gelu: return activate_elements<activation::gelu>(on, x, location);
        case activation::sigmoid: return activate_elements<activation::sigmoid>(on, x, location);
        case activation::tanh: return activate_elements<activation::tanh>(on, x, location);
        case activation::softmax: return softmax(on, x, location);
    }
}

void fill_elements(stream on, storage& x, std::size_t count, const void* value, std::size_t element_bytes,
                   source_location location) {
    if (count == 0) return;
    switch (element_bytes) {
        case 1: return fill_with<std::uint8_t>(on, x, count, value, location);
        case 2: return fill_with<std::uint16_t>(on, x, count, value, location);
        case 4: return fill_with<std::uint32_t>(on, x, count, value, location);
        case 8: return fill_with<std::uint64_t>(on, x, count, value, location);
        default: throw error(errc::invalid_argument, "elements of 1, 2, 4 or 8 bytes only", {"full", "", location});
    }
}

}  // namespace sluice

// Elementwise kernels, one source for both sides.
#include "sluice/kernels/elementwise.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "sluice/kernels/naive.hpp"
#include "sluice/kernels/softmax.hpp"
#include "sluice/runtime/launch.hpp"

namespace sluice {
namespace {

struct gelu_kernel {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<float> x) const {
        if (float* const e = x.at(at)) *e = 0.5f * *e * (1.0f + erff(*e * 0.70710678118654752f));
    }
};

struct sigmoid_kernel {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<float> x) const {
        if (float* const e = x.at(at)) *e = 1.0f / (1.0f + expf(-*e));
    }
};

struct tanh_kernel {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<float> x) const {
        if (float* const e = x.at(at)) *e = tanhf(*e);
    }
};

template <typename T>
struct fill_kernel {
    T value;
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<T> x) const {
        if (T* const e = x.at(at)) *e = value;
    }
};

// The one launch that names storage instead of a tensor: the element type is known by its size only.
template <typename T>
void fill_with(stream& on, storage& x, std::size_t count, const void* value, const source_location& where) {
    fill_kernel<T> kernel{};
    std::memcpy(&kernel.value, value, sizeof(T));
    const auto values = detail::make_kernel_values(disjoint_view<T>(static_cast<T*>(x.data()), count));
    using body = detail::launch_body<fill_kernel<T>, index_1d, decltype(values)>;
    const typename body::closure closure{count, 1, values, kernel};
    const std::array accesses{memory_access{&x, access_mode::write}};
    on.launch({"full", accesses, where}, body::command(closure));
}

}  // namespace

void activate(stream& on, tensor<float>& x, activation what, source_location where) {
    const launch_range all{x.shape(), false, where};
    switch (what) {
        case activation::none: return;
        case activation::relu: return launch_on(on, kernels::relu{}, all, x);
        case activation::gelu: return launch_on(on, gelu_kernel{}, all, x);
        case activation::sigmoid: return launch_on(on, sigmoid_kernel{}, all, x);
        case activation::tanh: return launch_on(on, tanh_kernel{}, all, x);
        case activation::softmax: return softmax(on, x, where);
    }
}

void fill_elements(stream& on, storage& x, std::size_t count, const void* value, std::size_t element_bytes,
                   source_location where) {
    if (count == 0) return;
    switch (element_bytes) {
        case 1: return fill_with<std::uint8_t>(on, x, count, value, where);
        case 2: return fill_with<std::uint16_t>(on, x, count, value, where);
        case 4: return fill_with<std::uint32_t>(on, x, count, value, where);
        case 8: return fill_with<std::uint64_t>(on, x, count, value, where);
        default: throw error(errc::invalid_argument, "elements of 1, 2, 4 or 8 bytes only", {"full", "", where});
    }
}

}  // namespace sluice

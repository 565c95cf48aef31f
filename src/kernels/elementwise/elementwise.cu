// SPDX-License-Identifier: Apache-2.0
// Activations and full, one source for both sides.
#include "sluice/kernels/elementwise.hpp"

#include <array>
#include <cstdint>
#include <cstring>

#include "kernels/elementwise/words.hpp"
#include "sluice/kernels/activated.hpp"
#include "sluice/kernels/softmax.hpp"
#include "sluice/kernels/whole_tensor.hpp"

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

template <typename Word>
struct fill_kernel {
    Word value;
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<Word> x) const {
        if (Word* const e = x.at(at)) *e = value;
    }
};

template <typename Word>
void fill_with(stream on, storage& x, std::size_t count, const void* value, const command_info& info) {
    fill_kernel<Word> kernel{};
    std::memcpy(&kernel.value, value, sizeof(Word));
    kernels::launch_over_words(on, info, x, count, kernel);
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
                   source_location location, std::string_view name) {
    if (count == 0) return;
    const std::array accesses{memory_access{&x, access_mode::write}};
    const command_info info{name, accesses, location};
    switch (element_bytes) {
        case 1: return fill_with<std::uint8_t>(on, x, count, value, info);
        case 2: return fill_with<std::uint16_t>(on, x, count, value, info);
        case 4: return fill_with<std::uint32_t>(on, x, count, value, info);
        case 8: return fill_with<std::uint64_t>(on, x, count, value, info);
        default: throw error(errc::invalid_argument, "elements of 1, 2, 4 or 8 bytes only", {name, "", location});
    }
}

}  // namespace sluice

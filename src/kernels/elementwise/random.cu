// SPDX-License-Identifier: Apache-2.0
// Random numbers, one source for both sides. Each element makes its counter's four words and keeps one: it needs
// no other thread for that.
#include "sluice/kernels/random.hpp"

#include <cmath>
#include <limits>
#include <string>

#include "sluice/base/error.hpp"
#include "sluice/base/half.hpp"
#include "sluice/kernels/philox.hpp"
#include "sluice/runtime/launch.hpp"

namespace sluice {
namespace {

// The smallest element of T that is not below x, and the largest one that is below it.
template <typename T>
float at_least(float x) {
    if constexpr (std::same_as<T, float>) {
        return x;
    } else {
        const T near(x);
        if (static_cast<float>(near) >= x) return near;
        const std::uint16_t bits = near.bits();
        return T::from_bits((bits & 0x8000u) != 0 ? static_cast<std::uint16_t>(bits - 1)
                                                  : static_cast<std::uint16_t>(bits + 1));
    }
}
template <typename T>
float below(float x) {
    if constexpr (std::same_as<T, float>) {
        return std::nextafter(x, -std::numeric_limits<float>::infinity());
    } else {
        const T near(x);
        if (static_cast<float>(near) < x) return near;
        const std::uint16_t bits = near.bits();
        if ((bits & 0x7fffu) == 0) return T::from_bits(0x8001u);  // zero: the negative number nearest to it
        return T::from_bits((bits & 0x8000u) != 0 ? static_cast<std::uint16_t>(bits + 1)
                                                  : static_cast<std::uint16_t>(bits - 1));
    }
}

SLUICE_KERNEL std::uint32_t word_at(std::uint64_t seed, std::uint64_t place) {
    return philox(seed, 0, place / 4).word[place % 4];
}

// With the default distributions these are u and z, bit for bit: fmaf(u, 1, 0) and fmaf(z, 1, -0).
template <typename T>
struct uniform_kernel {
    std::uint64_t seed, first;
    float width, low, smallest, largest;

    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<T> x) const {
        T* const element = x.at(at);
        if (element == nullptr) return;
        const float exact = fmaf(uniform_from(word_at(seed, first + at.value())), width, low);
        const float rounded = static_cast<float>(T(exact));
        *element = T(rounded < smallest ? smallest : rounded > largest ? largest : rounded);
    }
};
template <typename T>
struct normal_kernel {
    std::uint64_t seed, first;
    float deviation, mean;

    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<T> x) const {
        T* const element = x.at(at);
        if (element == nullptr) return;
        const float z = normal_from(word_at(seed, first + at.value()));
        *element = T(fmaf(z, deviation, mean));
    }
};

[[noreturn]] void refuse(const char* what, const std::string& why, const source_location& location) {
    throw error(errc::invalid_argument, why, {what, {}, location});
}

}  // namespace

template <random_element T>
void detail::require_distribution(const uniform_distribution& of, const source_location& location) {
    const std::string bounds = "low is " + std::to_string(of.low) + " and high is " + std::to_string(of.high);
    if (!std::isfinite(of.low) || !std::isfinite(of.high) || !std::isfinite(of.high - of.low))
        refuse("uniform", bounds + "; both and high - low must be finite", location);
    if (!(of.low < of.high)) refuse("uniform", bounds + "; low must be below high", location);
    if (at_least<T>(of.low) > below<T>(of.high))
        refuse("uniform", bounds + "; no number of the element type lies between them", location);
}
template <random_element T>
void detail::require_distribution(const normal_distribution& of, const source_location& location) {
    const std::string both =
        "the mean is " + std::to_string(of.mean) + " and the deviation " + std::to_string(of.deviation);
    if (!std::isfinite(of.mean) || !std::isfinite(of.deviation))
        refuse("randn", both + "; both must be finite", location);
    if (of.deviation < 0) refuse("randn", both + "; it must be at least 0", location);
}

template <random_element T>
void fill_random(stream on, tensor<T>& x, const uniform_distribution& of, std::uint64_t seed, std::uint64_t first,
                 source_location location) {
    detail::require_distribution<T>(of, location);
    const uniform_kernel<T> kernel{seed, first, of.high - of.low, of.low, at_least<T>(of.low), below<T>(of.high)};
    launch_on(on, kernel, each_of(x, location), x);
}
template <random_element T>
void fill_random(stream on, tensor<T>& x, const normal_distribution& of, std::uint64_t seed, std::uint64_t first,
                 source_location location) {
    detail::require_distribution<T>(of, location);
    const normal_kernel<T> kernel{seed, first, of.deviation, of.mean == 0 && of.deviation != 0 ? -0.0f : of.mean};
    launch_on(on, kernel, each_of(x, location), x);
}

#define SLUICE_RANDOM_OF(T, Distribution)                                                       \
    template void detail::require_distribution<T>(const Distribution&, const source_location&); \
    template void fill_random(stream, tensor<T>&, const Distribution&, std::uint64_t, std::uint64_t, source_location);
SLUICE_RANDOM_OF(float, uniform_distribution)
SLUICE_RANDOM_OF(float, normal_distribution)
SLUICE_RANDOM_OF(half, uniform_distribution)
SLUICE_RANDOM_OF(half, normal_distribution)
SLUICE_RANDOM_OF(bfloat16, uniform_distribution)
SLUICE_RANDOM_OF(bfloat16, normal_distribution)
#undef SLUICE_RANDOM_OF

}  // namespace sluice

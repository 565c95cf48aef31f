// SPDX-License-Identifier: Apache-2.0
// arange, linspace, eye: one source for both sides. double's operations round in the same places on a GPU, since a
// product is never followed by a sum here, except in an fma.
#include "sluice/kernels/creation.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "kernels/elementwise/words.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/half.hpp"

namespace sluice::detail {
namespace {

template <typename T>
SLUICE_KERNEL T rounded_to(double x) {
    if constexpr (std::same_as<T, double>) {
        return x;
    } else {
        return T(static_cast<float>(x));
    }
}

template <typename Word>
struct integer_sequence_kernel {
    std::uint64_t first, step;
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<Word> x) const {
        if (Word* const e = x.at(at)) *e = static_cast<Word>(first + at.value() * step);
    }
};
template <typename T>
struct number_sequence_kernel {
    double first, step;
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<T> x) const {
        if (T* const e = x.at(at)) *e = rounded_to<T>(fma(static_cast<double>(at.value()), step, first));
    }
};
template <typename T>
struct number_interval_kernel {
    double first, last;
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<T> x) const {
        T* const e = x.at(at);
        if (e == nullptr) return;
        const std::size_t end = x.size() - 1;
        const double part = static_cast<double>(at.value()) * (last - first) / static_cast<double>(end);
        *e = rounded_to<T>(at.value() == 0 ? first : at.value() == end ? last : first + part);
    }
};
// The ones are `columns + 1` apart, down to the last of the diagonal.
template <typename Word>
struct identity_kernel {
    std::uint64_t one;
    std::size_t columns, end;
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<Word> x) const {
        const std::size_t i = at.value();
        if (Word* const e = x.at(at)) *e = i < end && i % (columns + 1) == 0 ? static_cast<Word>(one) : Word{0};
    }
};

template <template <typename> typename Kernel, typename... Numbers>
void launch_by_size(stream on, const command_info& info, storage& to, std::size_t count, std::size_t element_bytes,
                    Numbers... numbers) {
    switch (element_bytes) {
        case 1: return kernels::launch_over_words(on, info, to, count, Kernel<std::uint8_t>{numbers...});
        case 2: return kernels::launch_over_words(on, info, to, count, Kernel<std::uint16_t>{numbers...});
        case 4: return kernels::launch_over_words(on, info, to, count, Kernel<std::uint32_t>{numbers...});
        default: return kernels::launch_over_words(on, info, to, count, Kernel<std::uint64_t>{numbers...});
    }
}

[[noreturn]] void refuse(const char* name, const std::string& why, const source_location& location) {
    throw error(errc::invalid_argument, why, {name, {}, location});
}

// Doubles hold all integers up to here.
constexpr double most_elements = 0x1p53;

template <typename T>
bool can_hold(double x) {
    return std::isfinite(x) && std::isfinite(static_cast<double>(rounded_to<T>(x)));
}

}  // namespace

void integer_sequence::write(stream on, storage& to, const shape& of, const command_info& info) const {
    launch_by_size<integer_sequence_kernel>(on, info, to, of.size(), element_bytes, first, step);
}

template <floating_element T>
void number_sequence<T>::write(stream on, storage& to, const shape& of, const command_info& info) const {
    kernels::launch_over_words(on, info, to, of.size(), number_sequence_kernel<T>{first, step});
}

template <floating_element T>
void number_interval<T>::write(stream on, storage& to, const shape& of, const command_info& info) const {
    kernels::launch_over_words(on, info, to, of.size(), number_interval_kernel<T>{first, last});
}

void identity::write(stream on, storage& to, const shape& of, const command_info& info) const {
    const std::size_t end = std::min(of[0], of[1]) * of[1];
    launch_by_size<identity_kernel>(on, info, to, of.size(), element_bytes, one, of[1], end);
}

std::size_t count_of_integers(wide_integer first, wide_integer last, wide_integer step, wide_integer lowest,
                              wide_integer highest, const source_location& location) {
    if (step == 0) refuse("arange", "the step is 0", location);
    const wide_integer distance = step > 0 ? last - first : first - last, stride = step > 0 ? step : -step;
    if (distance < 0) refuse("arange", "the step points away from the end", location);
    if (distance == 0) return 0;
    const wide_integer count = (distance - 1) / stride + 1, end = first + (count - 1) * step;
    if (std::min(first, end) < lowest || std::max(first, end) > highest)
        refuse("arange", "the element type cannot hold all elements", location);
    if (count > static_cast<wide_integer>(most_elements)) refuse("arange", "more than 2^53 elements", location);
    return static_cast<std::size_t>(count);
}

template <floating_element T>
std::size_t count_of_numbers(double first, double last, double step, const source_location& location) {
    if (!std::isfinite(first) || !std::isfinite(last) || !std::isfinite(step))
        refuse("arange", "first, last and step must be finite", location);
    if (step == 0) refuse("arange", "the step is 0", location);
    const double steps = (last - first) / step;
    if (steps < 0) refuse("arange", "the step points away from the end", location);
    const double count = std::ceil(steps);
    if (!(count <= most_elements)) refuse("arange", "more than 2^53 elements", location);
    if (count == 0) return 0;
    if (!can_hold<T>(first) || !can_hold<T>(std::fma(count - 1, step, first)))
        refuse("arange", "the element type cannot hold all elements", location);
    return static_cast<std::size_t>(count);
}

template <floating_element T>
void require_interval(double first, double last, std::size_t count, const source_location& location) {
    if (!std::isfinite(first) || !std::isfinite(last)) refuse("linspace", "first and last must be finite", location);
    if (static_cast<double>(count) > most_elements) refuse("linspace", "more than 2^53 elements", location);
    if (!can_hold<T>(first) || !can_hold<T>(last))
        refuse("linspace", "the element type cannot hold first and last", location);
    if (count != 0 && !std::isfinite(static_cast<double>(count - 1) * (last - first)))
        refuse("linspace", "(count - 1) * (last - first) must be finite", location);
}

#define SLUICE_CREATION_OF(T)                                                                 \
    template struct number_sequence<T>;                                                       \
    template struct number_interval<T>;                                                       \
    template std::size_t count_of_numbers<T>(double, double, double, const source_location&); \
    template void require_interval<T>(double, double, std::size_t, const source_location&);
SLUICE_CREATION_OF(float)
SLUICE_CREATION_OF(double)
SLUICE_CREATION_OF(half)
SLUICE_CREATION_OF(bfloat16)
#undef SLUICE_CREATION_OF

}  // namespace sluice::detail

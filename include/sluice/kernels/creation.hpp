// SPDX-License-Identifier: Apache-2.0
// ones, arange, linspace, eye: new tensors with simple contents. (zeros and uninitialized are in transfer.hpp, full in
// elementwise.hpp, random numbers in random.hpp.)
//
//     ones<float>({64, 64})
//     arange<int>(0, 10)            // 0, 1 ... 9
//     arange<float>(1, 0, -0.25)    // 1, 0.75, 0.5, 0.25
//     linspace<half>(0, 1, 5)       // 0, 0.25, 0.5, 0.75, 1: both ends
//     eye<float>(4)                 // [4, 4], 1 where row and column are equal, else 0
//
// Each is an operation that costs a new tensor and one command that runs on the device, and does not block. The
// contents are the same bits on every device:
//     arange    element i is first + i * step, for i below ceil((last - first) / step); `last` is not among them.
//               Integers: exact. Floating point: count and elements are computed in double, an element with one
//               rounding (fma), and then rounded to T; this may make the last element equal to `last`.
//     linspace  element i is first + (i * (last - first)) / (count - 1), computed in double and rounded to T; the last
//               element is `last` itself. One element: first.
// Numbers become half and bfloat16 through float: two roundings.
//
// Errors, thrown when the operation is made: errc::invalid_argument for a step of 0 or one that points away from
// `last`, for numbers that are not finite or that T cannot hold, and for more than 2^53 elements. No elements: nothing
// is submitted.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "sluice/base/half.hpp"
#include "sluice/kernels/elementwise.hpp"
#include "sluice/op/detail/single_use.hpp"
#include "sluice/op/operation.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice {

namespace detail {
template <typename T>
concept floating_element =
    std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, half> || std::same_as<T, bfloat16>;
template <typename T>
concept integer_element = std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char>;
template <typename T>
concept number_element = floating_element<T> || integer_element<T>;

// What the elements are. write submits one command, whose info names the storage; `of` has elements.
struct integer_sequence {
    std::uint64_t first, step;  // added up modulo 2^64, and then cut to the element
    std::size_t element_bytes;

    void write(stream on, storage& to, const shape& of, const command_info& info) const;
};
template <floating_element T>
struct number_sequence {
    double first, step;
    void write(stream on, storage& to, const shape& of, const command_info& info) const;
};
template <floating_element T>
struct number_interval {
    double first, last;
    void write(stream on, storage& to, const shape& of, const command_info& info) const;
};
struct identity {
    std::uint64_t one;  // its bits
    std::size_t element_bytes;

    void write(stream on, storage& to, const shape& of, const command_info& info) const;
};

__extension__ using wide_integer = __int128;  // holds all 64-bit numbers and their differences

// The number of elements; for numbers that are refused they throw.
std::size_t count_of_integers(wide_integer first, wide_integer last, wide_integer step, wide_integer lowest,
                              wide_integer highest, const source_location& location);
template <floating_element T>
std::size_t count_of_numbers(double first, double last, double step, const source_location& location);
template <floating_element T>
void require_interval(double first, double last, std::size_t count, const source_location& location);
}  // namespace detail

// The operation that arange, linspace and eye return.
template <typename T, typename Contents>
class creation_operation : public operation_base<creation_operation<T, Contents>> {
public:
    using output = tensor<T>;

    creation_operation(const shape& shape, const Contents& contents, const char* name, const source_location& location)
        : shape_(shape), contents_(contents), name_(name), location_(location) {}

    output submit(execution_context& context) && {
        once_.use(name_);
        tensor<T> made(context.stream(), shape_, {name_, {}, location_});
        const std::array accesses{memory_access{made.memory(), access_mode::write}};
        if (made.size() != 0) contents_.write(context.stream(), *made.memory(), shape_, {name_, accesses, location_});
        return made;
    }
    work_estimate estimate() const { return {1, shape_.size() * sizeof(T)}; }

private:
    shape shape_;
    Contents contents_;
    const char* name_;
    source_location location_;
    detail::single_use once_;
};

// Every element is 1.
template <detail::number_element T>
auto ones(const shape& shape, source_location location = source_location::current()) {
    return full<T>(shape, static_cast<T>(1), location);
}

// From `first` in steps to before `last`: one dimension.
template <detail::integer_element T, std::integral First, std::integral Last, std::integral Step = int>
auto arange(First first, Last last, Step step = 1, source_location location = source_location::current()) {
    const std::size_t count = detail::count_of_integers(first, last, step, std::numeric_limits<T>::min(),
                                                        std::numeric_limits<T>::max(), location);
    const detail::integer_sequence all{static_cast<std::uint64_t>(first), static_cast<std::uint64_t>(step), sizeof(T)};
    return creation_operation<T, detail::integer_sequence>(shape{count}, all, "arange", location);
}
template <detail::floating_element T>
auto arange(double first, double last, double step = 1, source_location location = source_location::current()) {
    const std::size_t count = detail::count_of_numbers<T>(first, last, step, location);
    return creation_operation<T, detail::number_sequence<T>>(shape{count}, {first, step}, "arange", location);
}

// `count` elements at equal distances, with both ends: one dimension.
template <detail::floating_element T>
auto linspace(double first, double last, std::size_t count, source_location location = source_location::current()) {
    detail::require_interval<T>(first, last, count, location);
    return creation_operation<T, detail::number_interval<T>>(shape{count}, {first, last}, "linspace", location);
}

// A matrix with ones on its diagonal and zeros elsewhere.
template <detail::number_element T>
auto eye(std::size_t rows, std::size_t columns, source_location location = source_location::current()) {
    const T one = static_cast<T>(1);
    std::uint64_t bits = 0;
    std::memcpy(&bits, &one, sizeof(T));
    return creation_operation<T, detail::identity>(shape{rows, columns}, {bits, sizeof(T)}, "eye", location);
}
template <detail::number_element T>
auto eye(std::size_t rows, source_location location = source_location::current()) {
    return eye<T>(rows, rows, location);
}

}  // namespace sluice

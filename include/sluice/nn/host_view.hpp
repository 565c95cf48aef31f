// SPDX-License-Identifier: Apache-2.0
// input_view and output_view: numbers in memory of the caller, which a network reads and writes before it returns.
//
//     std::vector<float> pixels(64), logits(10);
//     digits({{pixels, {1, 64}}}, {{logits, {1, 10}}});
//
// A view owns nothing: the numbers outlive it. The elements are row-major.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <ranges>
#include <span>
#include <string>

#include "sluice/io/dtype.hpp"

namespace sluice::nn {

class any_tensor;

namespace detail {

// A type and a shape, without memory of its own elsewhere.
class view_form {
public:
    static constexpr std::size_t most_dimensions = 8;

    // Throws errc::shape_mismatch for more dimensions, and for a shape whose elements have no size.
    view_form(io::dtype type, std::span<const std::size_t> shape);

    io::dtype type() const noexcept { return type_; }
    std::span<const std::size_t> shape() const noexcept { return {lengths_.data(), rank_}; }
    std::size_t size_bytes() const noexcept { return bytes_; }
    std::string text() const;  // "f32 [1, 64]"

    friend bool operator==(const view_form&, const view_form&) = default;

private:
    io::dtype type_;
    std::size_t rank_;
    std::size_t bytes_ = 0;
    std::array<std::size_t, most_dimensions> lengths_{};  // zeros after the last
};

// Throws errc::shape_mismatch unless that many elements fill the shape.
void require_filled(const view_form& by, std::size_t elements);

template <typename Range>
concept host_numbers = std::ranges::contiguous_range<Range> && std::ranges::sized_range<Range> &&
                       requires { io::dtype_of<std::ranges::range_value_t<Range>>; };

}  // namespace detail

class input_view {
public:
    // A vector, array or span of numbers. Throws errc::shape_mismatch unless they fill the shape, and for more than 8
    // dimensions. Costs O(dimensions).
    template <detail::host_numbers Range>
    input_view(const Range& numbers, std::span<const std::size_t> shape)
        : form_(io::dtype_of<std::ranges::range_value_t<Range>>, shape),
          data_(reinterpret_cast<const std::byte*>(std::ranges::data(numbers))) {
        detail::require_filled(form_, std::ranges::size(numbers));
    }
    template <detail::host_numbers Range>
    input_view(const Range& numbers, std::initializer_list<std::size_t> shape)
        : input_view(numbers, std::span(shape.begin(), shape.size())) {}
    // As many numbers as the type and the shape say. Booleans are bytes, 0 or 1. Throws errc::shape_mismatch for more
    // than 8 dimensions, and for a shape whose elements have no size. Costs O(dimensions).
    input_view(io::dtype type, const void* data, std::span<const std::size_t> shape)
        : form_(type, shape), data_(static_cast<const std::byte*>(data)) {}

    // Of a tensor in host memory, which lives longer. Throws errc::invalid_argument for one that is not there. Costs
    // O(dimensions).
    explicit input_view(const any_tensor& of);

    const detail::view_form& form() const noexcept { return form_; }  // for the network: the type and the shape
    const std::byte* data() const noexcept { return data_; }          // the first element

private:
    detail::view_form form_;
    const std::byte* data_;
};

// Where a network writes an output.
class output_view {
public:
    // As for input_view; the range is written. Throws errc::shape_mismatch unless the numbers fill the shape, and for
    // more than 8 dimensions. Costs O(dimensions).
    template <detail::host_numbers Range>
    output_view(Range&& numbers, std::span<const std::size_t> shape)
        : form_(io::dtype_of<std::ranges::range_value_t<Range>>, shape),
          data_(reinterpret_cast<std::byte*>(std::ranges::data(numbers))) {
        detail::require_filled(form_, std::ranges::size(numbers));
    }
    template <detail::host_numbers Range>
    output_view(Range&& numbers, std::initializer_list<std::size_t> shape)
        : output_view(numbers, std::span(shape.begin(), shape.size())) {}
    output_view(io::dtype type, void* data, std::span<const std::size_t> shape)
        : form_(type, shape), data_(static_cast<std::byte*>(data)) {}

    const detail::view_form& form() const noexcept { return form_; }  // for the network: the type and the shape
    std::byte* data() const noexcept { return data_; }                // the first element

private:
    detail::view_form form_;
    std::byte* data_;
};

}  // namespace sluice::nn

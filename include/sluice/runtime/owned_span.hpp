// SPDX-License-Identifier: Apache-2.0
// owned_span<T>: elements in host memory, with the owner that keeps the memory alive. Copies share the owner. It
// converts to std::span<T>; such a span is valid while an owned_span or the owner is kept.
//
// All members take constant time.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

namespace sluice {

template <typename T>
class owned_span {
public:
    using element_type = T;  // of the elements

    owned_span() = default;  // empty, without an owner
    owned_span(std::span<T> elements, std::shared_ptr<const void> owner) noexcept
        : elements_(elements), owner_(std::move(owner)) {}

    operator std::span<T>() const noexcept { return elements_; }  // NOLINT(google-explicit-constructor): it is one

    T* data() const noexcept { return elements_.data(); }           // the first element
    std::size_t size() const noexcept { return elements_.size(); }  // in elements
    bool empty() const noexcept { return elements_.empty(); }       // whether there is no element
    // The element at this index, below size().
    T& operator[](std::size_t index) const noexcept { return elements_[index]; }
    auto begin() const noexcept { return elements_.begin(); }  // an iterator, for loops over the elements
    auto end() const noexcept { return elements_.end(); }      // an iterator, for loops over the elements

    const std::shared_ptr<const void>& owner() const noexcept { return owner_; }  // keeps the elements alive

private:
    std::span<T> elements_;
    std::shared_ptr<const void> owner_;
};

}  // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// shared<T>: an immutable value with many readers, by reference count. Copies are cheap and may be made,
// used and dropped on any thread. A shared tensor is freed in stream order, after its last reader on any
// stream.
//
// All members take constant time; the constructor from a value allocates one block.
#pragma once

#include <memory>
#include <utility>

#include "sluice/op/detail/single_use.hpp"

namespace sluice {

template <typename T>
class shared {
public:
    using element_type = T;  // of the value

    // Takes the value over: from now on it is read-only.
    explicit shared(T value) : value_(std::make_shared<const T>(std::move(value))) {}
    explicit shared(std::shared_ptr<const T> value) noexcept : value_(std::move(value)) {}

    // The value. Throws errc::invalid_argument when this handle was moved from.
    const T& operator*() const { return *get(); }
    const T* operator->() const { return get(); }  // a member of the value; throws likewise

    // How many handles there are now. Only a hint while other threads copy or drop theirs.
    long use_count() const noexcept { return value_.use_count(); }

private:
    const T* get() const {
        if (value_ == nullptr) detail::refuse_moved_value("a shared value");
        return value_.get();
    }

    std::shared_ptr<const T> value_;
};

}  // namespace sluice

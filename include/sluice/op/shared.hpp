// shared<T>: an immutable value with many readers, by reference count. Copies are cheap and may be made,
// used and dropped on any thread. A shared tensor is freed in stream order, after its last reader on any
// stream.
#pragma once

#include <memory>
#include <utility>

namespace sluice {

template <typename T>
class shared {
public:
    using element_type = T;

    // Takes the value over: nobody can write it from now on.
    explicit shared(T value) : value_(std::make_shared<const T>(std::move(value))) {}
    explicit shared(std::shared_ptr<const T> value) noexcept : value_(std::move(value)) {}

    const T& operator*() const noexcept { return *value_; }
    const T* operator->() const noexcept { return value_.get(); }

    // How many handles there are now. Only a hint while other threads copy or drop theirs.
    long use_count() const noexcept { return value_.use_count(); }

private:
    std::shared_ptr<const T> value_;
};

}  // namespace sluice

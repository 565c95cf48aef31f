// SPDX-License-Identifier: Apache-2.0
// intrusive_ref<T>: a counted reference to an object that holds its count itself.
//
// T declares `add_reference(T&)` and `drop_reference(T&)` in its own namespace, both noexcept; drop_reference releases
// the object when it drops the last reference. Both may be called on any thread; one intrusive_ref is as safe as any
// other object.
#pragma once

#include <atomic>
#include <utility>

namespace sluice::detail {

template <typename T>
class intrusive_ref {
public:
    intrusive_ref() = default;
    // One more reference to the object; null stays null.
    explicit intrusive_ref(T* object) noexcept : object_(object) {
        if (object_ != nullptr) add_reference(*object_);
    }
    // Takes over a reference that is already counted.
    static intrusive_ref adopt(T* object) noexcept {
        intrusive_ref made;
        made.object_ = object;
        return made;
    }
    intrusive_ref(const intrusive_ref& other) noexcept : intrusive_ref(other.object_) {}
    intrusive_ref(intrusive_ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    intrusive_ref& operator=(intrusive_ref other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    ~intrusive_ref() {
        if (object_ != nullptr) drop_reference(*object_);
    }

    T* get() const noexcept { return object_; }
    T* operator->() const noexcept { return object_; }
    T& operator*() const noexcept { return *object_; }
    explicit operator bool() const noexcept { return object_ != nullptr; }
    friend bool operator==(const intrusive_ref&, const intrusive_ref&) = default;

private:
    T* object_ = nullptr;
};

// Drops one reference; returns whether it was the last. With one owner, which is the common case, the count need not
// change: no other thread can take a reference. Acquire: uses by other threads come before the release of the object.
// Release: uses by this thread come before its release by another one.
inline bool is_last_reference(std::atomic<long>& references) noexcept {
    return references.load(std::memory_order_acquire) == 1 || references.fetch_sub(1, std::memory_order_acq_rel) == 1;
}

}  // namespace sluice::detail

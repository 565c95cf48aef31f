// SPDX-License-Identifier: Apache-2.0
// An owned POSIX file descriptor.
//
// Thread safety: the object is not; the descriptor it gives out is as safe as the system call made on it.
#pragma once

#include <cstddef>
#include <memory>

namespace sluice::io {

namespace detail {
// Outside file_descriptor, and compared by a function of their own: of a nested one, nvcc 13 makes code that g++
// refuses.
struct descriptor_handle {
    int value = -1;

    descriptor_handle() noexcept = default;
    descriptor_handle(std::nullptr_t) noexcept {}
    descriptor_handle(int descriptor) noexcept : value(descriptor) {}
    explicit operator bool() const noexcept { return value >= 0; }
};
inline bool operator==(descriptor_handle a, descriptor_handle b) noexcept { return a.value == b.value; }
struct descriptor_closer {
    using pointer = descriptor_handle;
    void operator()(descriptor_handle descriptor) const noexcept;
};
}  // namespace detail

// Owns a descriptor and closes it. Move-only.
class file_descriptor {
public:
    file_descriptor() noexcept = default;
    // Takes ownership of an open descriptor; -1 means none. Moved from, it is empty. Costs O(1).
    explicit file_descriptor(int descriptor) noexcept : descriptor_(descriptor) {}
    // A null pointer would convert to descriptor 0, which is standard input.
    explicit file_descriptor(std::nullptr_t) = delete;

    // The descriptor, still owned by this; -1 when there is none. Costs O(1).
    int get() const noexcept { return descriptor_.get().value; }
    // Whether it has a descriptor. Costs O(1).
    explicit operator bool() const noexcept { return static_cast<bool>(descriptor_); }

private:
    std::unique_ptr<int, detail::descriptor_closer> descriptor_;
};

}  // namespace sluice::io

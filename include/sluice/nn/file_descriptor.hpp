// An owned POSIX file descriptor.
//
// Thread safety: the object is not; the descriptor it gives out is as safe as the system call made on it.
#pragma once

#include <cstddef>
#include <memory>

namespace sluice::nn {

class file_descriptor {
public:
    file_descriptor() noexcept = default;
    // Takes ownership of an open descriptor; -1 means none. Moved from, it is empty.
    explicit file_descriptor(int descriptor) noexcept : descriptor_(descriptor) {}
    // A null pointer would convert to descriptor 0, which is standard input.
    explicit file_descriptor(std::nullptr_t) = delete;

    int get() const noexcept { return descriptor_.get().value; }
    explicit operator bool() const noexcept { return static_cast<bool>(descriptor_); }

private:
    struct handle {
        int value = -1;

        handle() noexcept = default;
        handle(std::nullptr_t) noexcept {}
        handle(int descriptor) noexcept : value(descriptor) {}
        explicit operator bool() const noexcept { return value >= 0; }
        friend bool operator==(handle, handle) noexcept = default;
    };
    struct closer {
        using pointer = handle;
        void operator()(handle descriptor) const noexcept;
    };

    std::unique_ptr<int, closer> descriptor_;
};

}  // namespace sluice::nn

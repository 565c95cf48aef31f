// SPDX-License-Identifier: Apache-2.0
// adopt: a tensor over memory that others allocated: another library, cudaMalloc, a file mapping.
//
//     float* data = ...;                                    // from cudaMalloc, on the GPU that `gpu` is
//     tensor<float> x = adopt(gpu, data, {rows, columns}, [](float* p) { cudaFree(p); });
//     auto y = sync(value(std::move(x)).and_then(relu), pool);
//
//     shared_tensor<float> table = adopt(cpu, mapping->data(), {rows, columns}, mapping);  // const: only to read
//
// The tensor is like any other: commands on it are ordered, it may be split, shared, captured by a compiled graph and
// dropped at any moment. A pointer to const gives a shared_tensor.
//
// Before: the caller has waited for all work of others on the memory. After: no other code uses the memory while the
// tensor exists, except that others may read what is adopted as const. Memory may be adopted again, on the same device
// also while commands of an earlier tensor use it: new commands come after those submitted before on the whole tensor;
// its parts are dropped or joined first. Two tensors over the same bytes that are used at the same time are not
// ordered.
//
// The owner is any shared_ptr that keeps the memory, or a function that frees it. It is released once, when the tensor
// and its parts are dropped and the last command that uses the memory is complete. Dropping does not wait. The release
// happens on the runtime's completion thread, also when nothing is open; once the runtime is destroyed, on the thread
// that drops. The function may call CUDA and drop objects of Sluice. It must not throw, and must not wait for work of
// this runtime. Commands of a device that has faulted may never be complete: then the release happens when the
// runtime is destroyed.
//
// The way out: `x.device_data()` is the address, for code of others. It is valid as long as the tensor lives. The
// contents are there when the operation that made the tensor has been waited for (sync, get, co_await). The work of
// others on the address must be complete before the tensor is next used or dropped. dlpack.hpp does all this for
// libraries that exchange tensors.
//
// adopt() submits nothing and does not block. Errors: errc::invalid_argument when the owner is empty, when the data is
// null or not aligned, and when the device cannot use it; then nothing is released: an owner only loses the reference
// that was passed, and the function is not called. The data is aligned when its address is a multiple of
// adopted_alignment(device) and of alignof(T): kernels and libraries read many bytes at a time. A tensor without
// elements may be anywhere.
//
// On a GPU the memory must be that GPU's own (cudaMalloc, cudaMallocAsync). Host memory, managed memory and memory of
// other GPUs are refused. On a CPU device it is any host memory; an address that is not one cannot be recognised,
// except memory of the runtime's GPUs.
//
// It costs a few allocations on the host, a question to each device of the runtime, and O(n) for the n adopted blocks
// of the device that still live. Nothing is copied.
//
// Thread safety: adopt() may be called on any thread.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

#include "sluice/base/source_location.hpp"
#include "sluice/op/shared.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice {

// In bytes: 256 on a GPU, as all tensors have there; 16 on a CPU device. Costs O(1).
std::size_t adopted_alignment(const device& on) noexcept;

// tensor<T>; shared_tensor<T> for const T.
template <typename T>
using adopted_tensor = std::conditional_t<std::is_const_v<T>, shared_tensor<std::remove_const_t<T>>, tensor<T>>;

namespace detail {

// Throws as adopt() does.
storage_ref adopt_bytes(device& on, const void* data, const shape& shape, std::size_t element_bytes,
                        std::size_t element_alignment, std::shared_ptr<const void> owner,
                        const source_location& location);

template <typename T>
adopted_tensor<T> adopted_over(storage_ref memory, const shape& shape) {
    using element = std::remove_const_t<T>;
    return adopted_tensor<T>(tensor<element>(buffer<element>(std::move(memory), shape.size()), shape));
}

// Calls the function when it is destroyed, once it is armed.
template <typename T, typename Release>
class release_call {
public:
    release_call(T* data, Release release) : data_(data), release_(std::move(release)) {}
    release_call(const release_call&) = delete;  // the function is called once
    release_call& operator=(const release_call&) = delete;
    ~release_call() {
        if (is_armed_) release_(data_);
    }

    void arm() noexcept { is_armed_ = true; }

private:
    T* const data_;
    Release release_;
    bool is_armed_ = false;
};

}  // namespace detail

template <typename T>
adopted_tensor<T> adopt(device& on, T* data, const shape& shape, std::shared_ptr<const void> owner,
                        const source_location& location = source_location::current()) {
    return detail::adopted_over<T>(
        detail::adopt_bytes(on, data, shape, sizeof(T), alignof(T), std::move(owner), location), shape);
}

// Calls release(data) in place of releasing an owner.
template <typename T, std::invocable<T*> Release>
adopted_tensor<T> adopt(device& on, T* data, const shape& shape, Release release,
                        const source_location& location = source_location::current()) {
    if constexpr (std::is_pointer_v<Release> || requires { release.operator bool(); }) {
        if (!release) return adopt(on, data, shape, std::shared_ptr<const void>(), location);  // throws
    }
    auto owner = std::make_shared<detail::release_call<T, Release>>(data, std::move(release));
    adopted_tensor<T> made = adopt(on, data, shape, std::shared_ptr<const void>(owner), location);
    owner->arm();
    return made;
}

}  // namespace sluice

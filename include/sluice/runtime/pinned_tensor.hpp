// SPDX-License-Identifier: Apache-2.0
// pinned_tensor<T>: host memory with a shape that the device accesses at full speed (pinned, for a GPU), and that
// graphs and several threads share.
//
//     pinned_tensor<float> wanted(device, {1000}), found(device, {1000});
//     const auto improve = launchable(device, [=](tensor<float> x) {
//         return wanted.load().and_then(...)...and_then([=](tensor<float> y) { return found.store(std::move(y)); });
//     }, device_input<float>({1000}));
//     wanted.write(goal);                         // the host
//     sync(tick(), pool);                         // a graph whose kernel may launch `improve`
//     std::vector<float> y = found.read();        // waits for what writes it
//
// A handle: copies refer to the same memory. Whatever uses the memory keeps it: a handle, a command in flight, a graph
// whose commands name it. So handles may be dropped at any moment. The memory begins with zeros.
//
// load() and store() are operations, and their copies are ordinary commands. They may also be parts of a compiled graph
// and of a graph that kernels launch: every launch of these graphs, and of graphs whose kernels launch them, names the
// memory. So host and device never use it at the same time: write, read and change block until the device does not
// use it, and while they run, no other thread can submit a command that uses it.
//
// A failure of the command that writes the memory reaches what reads it. It ends with the next write() or eager
// store(); not with a store() inside a graph.
//
// Thread safety: all members may be called on any thread, also on one handle. write, read and change wait for the
// device, so host calls and completion handlers must not call them: errc::invalid_argument where the wait could never
// end; elsewhere they block.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "sluice/base/source_location.hpp"
#include "sluice/op/with_context.hpp"
#include "sluice/runtime/tensor.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice {

namespace detail {

// Zeros, in memory that several threads may use.
storage_ref allocate_pinned(device& on, const shape& shape, std::size_t element_bytes, const source_location& location);

class exclusive_use;

// While it exists, the host uses the memory.
class pinned_use {
public:
    enum class kind : unsigned char { read, overwrite, change };

    // Blocks until no command uses the memory (read: until no command writes it). Throws the failure of the command
    // that should have written it, unless the host writes all of it.
    pinned_use(storage& memory, kind what);
    pinned_use(const pinned_use&) = delete;  // it stands for one use
    pinned_use& operator=(const pinned_use&) = delete;
    ~pinned_use();

    // In a handler, for a function that the host has called meanwhile: throws what it threw. Where it would have had to
    // wait for the device, errc::invalid_argument.
    [[noreturn]] void rethrow() const;

private:
    const bool is_outermost_;  // the thread held no lock before
    std::unique_ptr<exclusive_use> use_;
};

// Copies `from` into the memory, all of which it overwrites: a failure of an earlier writer ends with it.
void store_pinned(stream on, const command_info& info, storage& memory, storage& from, std::size_t bytes);

// Throws errc::shape_mismatch.
void require_pinned_shape(const shape& of, const shape& given, const source_location& location);
void require_pinned_size(const shape& of, std::size_t given);

}  // namespace detail

template <typename T>
class pinned_tensor {
    static_assert(std::is_trivially_copyable_v<T>, "device memory holds trivially copyable elements");

public:
    using value_type = T;  // of the elements

    // For commands of this device. Throws out_of_memory. Costs an allocation from the pool of host memory, and O(bytes)
    // for the zeros.
    pinned_tensor(device& on, const sluice::shape& shape, source_location location = source_location::current())
        : memory_(detail::allocate_pinned(on, shape, sizeof(T), location)), shape_(shape) {}
    pinned_tensor(const pinned_tensor&) = default;  // moving copies: a handle is never empty
    pinned_tensor& operator=(const pinned_tensor&) = default;
    ~pinned_tensor() = default;

    const sluice::shape& shape() const noexcept { return shape_; }          // extents, in elements
    std::size_t size() const noexcept { return shape_.size(); }             // in elements
    std::size_t size_bytes() const noexcept { return size() * sizeof(T); }  // of all elements; costs O(1)

    // An operation: a new tensor on the device with these elements. Submitting it costs the tensor's allocation and one
    // copy command.
    auto load(source_location location = source_location::current()) const {
        return with_context([from = *this, location](execution_context& context) {
            const command_info info{"load", {}, location};
            tensor<T> made(context.stream(), from.shape_, info);
            if (made.size() != 0) {
                detail::copy_bytes(context.stream(), info, *made.memory(), *from.memory_, made.size_bytes(),
                                   copy_direction::host_to_device);
            }
            return made;
        });
    }
    // An operation that copies a tensor of this shape here, and returns it. Throws errc::shape_mismatch at once.
    // Submitting it costs one copy command.
    auto store(tensor<T> from, source_location location = source_location::current()) const {
        return storing(std::move(from), location);
    }
    auto store(shared_tensor<T> from, source_location location = source_location::current()) const {
        return storing(std::move(from), location);
    }

    // The host writes all elements. Throws errc::shape_mismatch for another number of values. Costs O(elements), and
    // the wait for their use.
    void write(std::span<const T> values) const {
        detail::require_pinned_size(shape_, values.size());
        const detail::pinned_use use(*memory_, detail::pinned_use::kind::overwrite);
        std::copy(values.begin(), values.end(), data());
    }
    // A copy of the elements for the host. Costs O(elements), and the wait for what writes them.
    std::vector<T> read() const {
        const detail::pinned_use use(*memory_, detail::pinned_use::kind::read);
        return std::vector<T>(data(), data() + size());
    }
    // Calls f(std::span<T>) with the elements, which it may read and write; returns the result. It must not keep the
    // span, submit work, use another pinned_tensor, or wait for the device, also not in a host_buffer's read and write:
    // errc::invalid_argument where such a wait is necessary. Costs one call of the function, and the wait for their
    // use.
    template <typename Function>
    decltype(auto) change(Function&& f) const {
        const detail::pinned_use use(*memory_, detail::pinned_use::kind::change);
        try {
            return std::invoke(std::forward<Function>(f), std::span<T>(data(), size()));
        } catch (...) {
            use.rethrow();
        }
    }

    // For commands: the storage to name.
    storage* memory() const noexcept { return memory_.get(); }

private:
    T* data() const noexcept { return static_cast<T*>(memory_->data()); }

    template <typename Tensor>
    auto storing(Tensor from, const source_location& location) const {
        detail::require_pinned_shape(shape_, detail::tensor_in(from).shape(), location);
        return with_context([to = *this, given = std::move(from), location](execution_context& context) mutable {
            const tensor<T>& source = detail::tensor_in(given);
            if (source.size() != 0) {
                detail::store_pinned(context.stream(), {"store", {}, location}, *to.memory_, *source.memory(),
                                     source.size_bytes());
            }
            return std::move(given);
        });
    }

    storage_ref memory_;
    sluice::shape shape_;
};

}  // namespace sluice

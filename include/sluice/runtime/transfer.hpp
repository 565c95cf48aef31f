// SPDX-License-Identifier: Apache-2.0
// Operations that create tensors and move data between host and device: upload, zeros, uninitialized, download,
// download_buffer.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "sluice/base/source_location.hpp"
#include "sluice/op/detail/single_use.hpp"
#include "sluice/op/operation.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/pending.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice {

namespace detail {
// Throws errc::shape_mismatch unless `size` elements fill the shape.
void require_upload_size(std::size_t size, const shape& shape, const source_location& location);
// Fills `to` from host memory. When `owner` is empty the memory is not needed after the call.
void upload_bytes(stream on, storage& to, const void* from, std::size_t bytes, std::shared_ptr<const void> owner,
                  const source_location& location);
void copy_bytes(stream on, const command_info& info, storage& to, storage& from, std::size_t bytes,
                copy_direction direction);
// Writes to `to`, beginning at its byte `at`.
void copy_to_host(stream on, const command_info& info, storage& to, std::size_t at, storage& from, std::size_t bytes);
void zero_bytes(stream on, storage& to, std::size_t bytes, const source_location& location);

template <typename T>
const tensor<T>& tensor_in(const tensor<T>& from) {
    return from;
}
template <typename T>
const tensor<T>& tensor_in(const shared_tensor<T>& from) {
    return *from;
}
}  // namespace detail

template <typename T>
class upload_operation : public operation_base<upload_operation<T>> {
    static_assert(std::is_trivially_copyable_v<T>, "device memory holds trivially copyable elements");

public:
    using output = tensor<T>;

    upload_operation(std::span<const T> from, std::shared_ptr<const void> owner, const shape& shape,
                     source_location location)
        : from_(from), owner_(std::move(owner)), shape_(shape), location_(location) {
        detail::require_upload_size(from.size(), shape, location);
    }

    output submit(execution_context& context) && {
        once_.use("upload");
        tensor<T> to(context.stream(), shape_, {"upload", {}, location_});
        detail::upload_bytes(context.stream(), *to.memory(), from_.data(), from_.size_bytes(), std::move(owner_),
                             location_);
        return to;
    }
    work_estimate estimate() const { return {1, from_.size_bytes()}; }

private:
    std::span<const T> from_;
    std::shared_ptr<const void> owner_;
    shape shape_;
    source_location location_;
    detail::single_use once_;
};

// Copies host data to a new device tensor. The operation owns the vector. This call throws errc::shape_mismatch when
// the shape has another number of elements.
//
// On a GPU: pinned memory that has an owner and is larger than 256 KiB is copied directly. All other memory has been
// read when the submission returns: the submission blocks while the host copies, and for more than 32 MiB until the
// stream reaches the copy. This call costs one allocation and moves the vector. The submission costs an allocation from
// the pool and one copy command, and on a GPU O(elements) for the copy on the host.
template <typename T>
auto upload(std::vector<T> values, const shape& shape, source_location location = source_location::current()) {
    auto owner = std::make_shared<const std::vector<T>>(std::move(values));
    const std::span<const T> from(*owner);
    return upload_operation<T>(from, std::move(owner), shape, location);
}
template <typename T>
auto upload(std::vector<T> values, source_location location = source_location::current()) {
    const std::size_t size = values.size();
    return upload(std::move(values), shape{size}, location);
}
// The same from memory that `owner` keeps alive until the device has read it: a mapped file, an arena, a part of a
// host_buffer. Without an owner the memory must live until the operation has been submitted; within a host-driven
// operation (retry, timeout, recover) until the whole operation is over. No thread may write it before.
template <typename T>
auto upload(std::span<const T> values, std::shared_ptr<const void> owner, const shape& shape,
            source_location location = source_location::current()) {
    return upload_operation<T>(values, std::move(owner), shape, location);
}
// The same from a host buffer, without a copy on the host. The operation consumes the buffer; its memory is reused
// after the device has read it.
template <typename T>
class upload_buffer_operation : public operation_base<upload_buffer_operation<T>> {
public:
    using output = tensor<T>;

    upload_buffer_operation(host_buffer<T> from, const shape& shape, source_location location)
        : from_(std::move(from)), shape_(shape), location_(location) {
        detail::require_upload_size(from_.size(), shape, location);
    }

    output submit(execution_context& context) && {
        once_.use("upload");
        const command_info info{"upload", {}, location_};
        tensor<T> to(context.stream(), shape_, info);
        if (to.size() != 0) {
            detail::copy_bytes(context.stream(), info, *to.memory(), *from_.memory(), to.size_bytes(),
                               copy_direction::host_to_device);
        }
        from_ = {};
        return to;
    }
    work_estimate estimate() const { return {1, from_.size_bytes()}; }

private:
    host_buffer<T> from_;
    shape shape_;
    source_location location_;
    detail::single_use once_;
};
template <typename T>
auto upload(host_buffer<T> values, const shape& shape, source_location location = source_location::current()) {
    return upload_buffer_operation<T>(std::move(values), shape, location);
}

// The operation that zeros and uninitialized return.
template <typename T>
class allocate_operation : public operation_base<allocate_operation<T>> {
    static_assert(std::is_trivially_copyable_v<T>, "device memory holds trivially copyable elements");

public:
    using output = tensor<T>;

    allocate_operation(const shape& shape, bool zeroed, source_location location)
        : shape_(shape), zeroed_(zeroed), location_(location) {}

    output submit(execution_context& context) && {
        once_.use(zeroed_ ? "zeros" : "uninitialized");
        tensor<T> made(context.stream(), shape_, {zeroed_ ? "zeros" : "uninitialized", {}, location_});
        if (zeroed_) detail::zero_bytes(context.stream(), *made.memory(), made.size_bytes(), location_);
        return made;
    }
    work_estimate estimate() const { return {zeroed_ ? 1u : 0u, zeroed_ ? shape_.size() * sizeof(T) : 0}; }

private:
    shape shape_;
    bool zeroed_;
    source_location location_;
    detail::single_use once_;
};

// A new device tensor of zeros. Costs an allocation from the pool and one command.
template <typename T>
auto zeros(const shape& shape, source_location location = source_location::current()) {
    return allocate_operation<T>(shape, true, location);
}
// A new device tensor with undefined contents, for a command that writes all of it. Costs an allocation from the pool,
// and no command.
template <typename T>
auto uninitialized(const shape& shape, source_location location = source_location::current()) {
    return allocate_operation<T>(shape, false, location);
}

namespace detail {
// Turns the host memory that a download has written into a vector.
template <typename T>
class downloaded_vector {
public:
    using value_type = std::vector<T>;

    downloaded_vector(const storage_ref& memory, std::size_t size) : memory_(memory), size_(size) {}

    std::size_t size() const noexcept { return size_; }
    std::vector<T> operator()() const {
        // The thread that opens it has waited. So the device is not queried again, which a host call must not do.
        memory_->on_host_access(access_mode::read);
        const std::span<const T> values(static_cast<const T*>(memory_->data()), size_);
        return std::vector<T>(values.begin(), values.end());
    }

private:
    storage_ref memory_;
    std::size_t size_;
};
// The same memory as a host_buffer, without a copy.
template <typename T>
class downloaded_buffer {
public:
    using value_type = host_buffer<T>;

    downloaded_buffer(const storage_ref& memory, std::size_t size) : memory_(memory), size_(size) {}

    std::size_t size() const noexcept { return size_; }
    host_buffer<T> operator()() const { return host_buffer<T>(memory_, size_); }

private:
    storage_ref memory_;
    std::size_t size_;
};
}  // namespace detail

// The operation that download and download_buffer return for one tensor.
template <typename T, typename Source, typename Landed = detail::downloaded_vector<T>>
class download_operation : public operation_base<download_operation<T, Source, Landed>> {
public:
    using output = pending<typename Landed::value_type>;

    explicit download_operation(Source from) : from_(std::move(from)) {}

    output submit(execution_context& context) && {
        const command_info info{"download"};
        const tensor<T>& source = detail::tensor_in(from_);
        detail::require_held(source, {info.name, context.device().name(), info.location});
        host_buffer<T> to(context.stream(), source.size(), info);
        if (source.size() != 0) {
            detail::copy_bytes(context.stream(), info, *to.memory(), *source.memory(), to.size_bytes(),
                               copy_direction::device_to_host);
        }
        return output::from(Landed(storage_ref(to.memory()), to.size()), to.memory());
    }
    work_estimate estimate() const { return {1, detail::tensor_in(from_).size_bytes()}; }

private:
    Source from_;
};

// Downloads several tensors into one host buffer, one after the other.
template <typename T, typename Landed = detail::downloaded_vector<T>>
class download_pieces_operation : public operation_base<download_pieces_operation<T, Landed>> {
public:
    using output = pending<typename Landed::value_type>;

    explicit download_pieces_operation(std::vector<tensor<T>> from) : from_(std::move(from)) {}
    download_pieces_operation(download_pieces_operation&&) noexcept = default;  // tensors in a vector cannot be copied

    output submit(execution_context& context) && {
        once_.use("download");
        const command_info info{"download"};
        host_buffer<T> to(context.stream(), size(), info);
        std::size_t at = 0;
        for (tensor<T>& each : std::exchange(from_, {})) {
            detail::require_held(each, {info.name, context.device().name(), info.location});
            if (each.size() == 0) continue;
            detail::copy_to_host(context.stream(), info, *to.memory(), at, *each.memory(), each.size_bytes());
            at += each.size_bytes();
        }
        return output::from(Landed(storage_ref(to.memory()), to.size()), to.memory());
    }
    work_estimate estimate() const { return {from_.size(), size() * sizeof(T)}; }

private:
    std::size_t size() const {
        std::size_t sum = 0;
        for (const tensor<T>& each : from_) sum += each.size();
        return sum;
    }

    std::vector<tensor<T>> from_;
    detail::single_use once_;
};

// download(tensor) or download(shared_tensor): copies a device tensor to the host. The result can be read only through
// a wait. download(std::vector<tensor>) concatenates the tensors in order. `download` is a function object, so
// and_then(download) works. Costs a block from the pool of host memory and one copy command for each tensor; the thread
// that takes the result then copies the elements into a vector.
struct download_function {
    template <typename T>
    auto operator()(tensor<T> from) const {
        return download_operation<T, tensor<T>>(std::move(from));
    }
    template <typename T>
    auto operator()(shared_tensor<T> from) const {
        return download_operation<T, shared_tensor<T>>(std::move(from));
    }
    template <typename T>
    auto operator()(std::vector<tensor<T>> from) const {
        return download_pieces_operation<T>(std::move(from));
    }
};
inline constexpr download_function download{};  // see download_function

// The same, but the result stays in the pinned memory that the device has written: a host_buffer, without another copy
// on the host. For results larger than a few kilobytes. Costs a block from the pool of host memory and one copy command
// for each tensor.
struct download_buffer_function {
    template <typename T>
    auto operator()(tensor<T> from) const {
        return download_operation<T, tensor<T>, detail::downloaded_buffer<T>>(std::move(from));
    }
    template <typename T>
    auto operator()(shared_tensor<T> from) const {
        return download_operation<T, shared_tensor<T>, detail::downloaded_buffer<T>>(std::move(from));
    }
    template <typename T>
    auto operator()(std::vector<tensor<T>> from) const {
        return download_pieces_operation<T, detail::downloaded_buffer<T>>(std::move(from));
    }
};
inline constexpr download_buffer_function download_buffer{};  // see download_buffer_function

}  // namespace sluice

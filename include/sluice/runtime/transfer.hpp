// Operations that make tensors and bring data in and out: upload, zeros, uninitialized, download, download_buffer.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "sluice/op/operation.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/pending.hpp"
#include "sluice/runtime/source_location.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice {

namespace detail {
// Throws errc::shape_mismatch unless `size` elements fill the shape.
void require_upload_size(std::size_t size, const shape& shape, const source_location& where);
// Fills `to` from pageable host memory. When `owner` is empty the memory is not needed after the call.
void upload_bytes(stream& on, storage& to, const void* from, std::size_t bytes, std::shared_ptr<const void> owner,
                  const source_location& where);
void copy_bytes(stream& on, const command_info& info, storage& to, storage& from, std::size_t bytes,
                copy_direction direction);
// From byte `at` of `to` on.
void copy_to_host(stream& on, const command_info& info, storage& to, std::size_t at, storage& from, std::size_t bytes);
void zero_bytes(stream& on, storage& to, std::size_t bytes, const source_location& where);

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
                     source_location where)
        : from_(from), owner_(std::move(owner)), shape_(shape), where_(where) {
        detail::require_upload_size(from.size(), shape, where);
    }

    output submit(execution_context& context) && {
        tensor<T> to(context.stream(), shape_, {"upload", {}, where_});
        detail::upload_bytes(context.stream(), *to.memory(), from_.data(), from_.size_bytes(), std::move(owner_),
                             where_);
        return to;
    }
    work_estimate estimate() const { return {1, from_.size_bytes()}; }

private:
    std::span<const T> from_;
    std::shared_ptr<const void> owner_;
    shape shape_;
    source_location where_;
};

// Host data to a new device tensor. The operation owns the vector. Throws errc::shape_mismatch, here, when
// the shape has another number of elements.
//
// To a GPU: pinned memory that has an owner is copied from where it is, when it is more than 1 MiB; all other memory
// has been read when the submission returns, which blocks for that long, and beyond 32 MiB until the stream comes to
// it.
template <typename T>
auto upload(std::vector<T> values, const shape& shape, source_location where = source_location::current()) {
    auto owner = std::make_shared<const std::vector<T>>(std::move(values));
    const std::span<const T> from(*owner);
    return upload_operation<T>(from, std::move(owner), shape, where);
}
template <typename T>
auto upload(std::vector<T> values, source_location where = source_location::current()) {
    const std::size_t size = values.size();
    return upload(std::move(values), shape{size}, where);
}
// The same from memory that `owner` keeps alive until the device has read it: a mapped file, an arena, a part of a
// host_buffer. Without an owner it must live until the operation has been submitted. Nobody may write it before.
template <typename T>
auto upload(std::span<const T> values, std::shared_ptr<const void> owner, const shape& shape,
            source_location where = source_location::current()) {
    return upload_operation<T>(values, std::move(owner), shape, where);
}
// The same from a host buffer, without a copy on the host. It is consumed, and free for reuse when the device
// has read it.
template <typename T>
class upload_buffer_operation : public operation_base<upload_buffer_operation<T>> {
public:
    using output = tensor<T>;

    upload_buffer_operation(host_buffer<T> from, const shape& shape, source_location where)
        : from_(std::move(from)), shape_(shape), where_(where) {
        detail::require_upload_size(from_.size(), shape, where);
    }

    output submit(execution_context& context) && {
        const command_info info{"upload", {}, where_};
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
    source_location where_;
};
template <typename T>
auto upload(host_buffer<T> values, const shape& shape, source_location where = source_location::current()) {
    return upload_buffer_operation<T>(std::move(values), shape, where);
}

template <typename T>
class allocate_operation : public operation_base<allocate_operation<T>> {
    static_assert(std::is_trivially_copyable_v<T>, "device memory holds trivially copyable elements");

public:
    using output = tensor<T>;

    allocate_operation(const shape& shape, bool zeroed, source_location where)
        : shape_(shape), zeroed_(zeroed), where_(where) {}

    output submit(execution_context& context) && {
        tensor<T> made(context.stream(), shape_, {zeroed_ ? "zeros" : "uninitialized", {}, where_});
        if (zeroed_) detail::zero_bytes(context.stream(), *made.memory(), made.size_bytes(), where_);
        return made;
    }
    work_estimate estimate() const { return {zeroed_ ? 1u : 0u, zeroed_ ? shape_.size() * sizeof(T) : 0}; }

private:
    shape shape_;
    bool zeroed_;
    source_location where_;
};

// A new device tensor of zeros.
template <typename T>
auto zeros(const shape& shape, source_location where = source_location::current()) {
    return allocate_operation<T>(shape, true, where);
}
// A new device tensor with undefined contents, for a command that writes all of it.
template <typename T>
auto uninitialized(const shape& shape, source_location where = source_location::current()) {
    return allocate_operation<T>(shape, false, where);
}

namespace detail {
// What a download has brought, once it is there.
template <typename T>
class landed_vector {
public:
    using value_type = std::vector<T>;

    landed_vector(const storage_ref& memory, std::size_t size) : memory_(memory), size_(size) {}

    std::size_t size() const noexcept { return size_; }
    std::vector<T> operator()() const {
        // Whoever opens it has waited: the device is not asked again, nor may it be from a host call.
        memory_->touched_by_host(access_mode::read);
        const std::span<const T> values(static_cast<const T*>(memory_->data()), size_);
        return std::vector<T>(values.begin(), values.end());
    }

private:
    storage_ref memory_;
    std::size_t size_;
};
// The same where it is.
template <typename T>
class landed_buffer {
public:
    using value_type = host_buffer<T>;

    landed_buffer(const storage_ref& memory, std::size_t size) : memory_(memory), size_(size) {}

    std::size_t size() const noexcept { return size_; }
    host_buffer<T> operator()() const { return host_buffer<T>(memory_, size_); }

private:
    storage_ref memory_;
    std::size_t size_;
};
}  // namespace detail

template <typename T, typename Source, typename Landed = detail::landed_vector<T>>
class download_operation : public operation_base<download_operation<T, Source, Landed>> {
public:
    using output = pending<typename Landed::value_type>;

    explicit download_operation(Source from) : from_(std::move(from)) {}

    output submit(execution_context& context) && {
        const command_info info{"download"};
        const tensor<T>& source = detail::tensor_in(from_);
        host_buffer<T> to(context.stream(), source.size(), info);
        if (source.size() != 0) {
            detail::copy_bytes(context.stream(), info, *to.memory(), *source.memory(), to.size_bytes(),
                               copy_direction::device_to_host);
        }
        return output::from(Landed(storage_ref::retain(to.memory()), to.size()), to.memory());
    }
    work_estimate estimate() const { return {1, detail::tensor_in(from_).size_bytes()}; }

private:
    Source from_;
};

// Several tensors, one behind the other.
template <typename T, typename Landed = detail::landed_vector<T>>
class download_pieces_operation : public operation_base<download_pieces_operation<T, Landed>> {
public:
    using output = pending<typename Landed::value_type>;

    explicit download_pieces_operation(std::vector<tensor<T>> from) : from_(std::move(from)) {}
    download_pieces_operation(download_pieces_operation&&) noexcept = default;  // tensors in a vector cannot be copied

    output submit(execution_context& context) && {
        const command_info info{"download"};
        host_buffer<T> to(context.stream(), size(), info);
        std::size_t at = 0;
        for (tensor<T>& each : std::exchange(from_, {})) {
            if (each.size() == 0) continue;
            detail::copy_to_host(context.stream(), info, *to.memory(), at, *each.memory(), each.size_bytes());
            at += each.size_bytes();
        }
        return output::from(Landed(storage_ref::retain(to.memory()), to.size()), to.memory());
    }
    work_estimate estimate() const { return {from_.size(), size() * sizeof(T)}; }

private:
    std::size_t size() const {
        std::size_t sum = 0;
        for (const tensor<T>& each : from_) sum += each.size();
        return sum;
    }

    std::vector<tensor<T>> from_;
};

// download(tensor) or download(shared_tensor): a device tensor to the host. The result can be read only
// through a wait. download(std::vector<tensor>) brings them all, one behind the other. Also a function object:
// and_then(download).
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
inline constexpr download_function download{};

// The same, left in the pinned memory that the device has written: a host_buffer, without another copy on the host. For
// results of more than some kilobytes.
struct download_buffer_function {
    template <typename T>
    auto operator()(tensor<T> from) const {
        return download_operation<T, tensor<T>, detail::landed_buffer<T>>(std::move(from));
    }
    template <typename T>
    auto operator()(shared_tensor<T> from) const {
        return download_operation<T, shared_tensor<T>, detail::landed_buffer<T>>(std::move(from));
    }
    template <typename T>
    auto operator()(std::vector<tensor<T>> from) const {
        return download_pieces_operation<T, detail::landed_buffer<T>>(std::move(from));
    }
};
inline constexpr download_buffer_function download_buffer{};

}  // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// download_to: copies a device tensor to existing host memory, without another copy on the host.
//
//     download_to(tensor, host_buffer)          -> pending<host_buffer<T>>: the buffer, filled
//     download_to(tensor, span, owner)          -> pending<owned_span<T>>: the span, filled, with its owner
//     and_then(download_to(std::move(buffer)))  -> the same in a chain; and_then(download_to(span, owner))
//
// The tensor may be a shared one. The result can be read only through a wait. It costs one copy command and, whatever
// the size, a few allocations on the host.
//
// Errors, thrown when the operation is created: errc::shape_mismatch unless the memory has exactly the tensor's size;
// errc::invalid_argument for a span without an owner.
//
// A host buffer may be dropped at any moment, also while the copy is in flight. `owner` keeps a span's memory alive
// until the copy is complete; it is released with the next copy or wait on that stream, or with the runtime, at the
// latest. The result keeps the owner too. No thread may read or write the span until the wait. For memory that is not
// pinned, a GPU's driver copies twice and may block the submitting thread until the stream reaches the copy: prefer a
// host_buffer, or a part of one that a shared_ptr owns.
#pragma once

#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "sluice/runtime/owned_span.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice {

namespace detail {
// Throws errc::shape_mismatch unless both sizes are equal.
void require_download_size(std::size_t room, std::size_t size, const source_location& location);
// Throws errc::invalid_argument for memory without an owner.
void require_download_owner(const std::shared_ptr<const void>& owner, std::size_t size,
                            const source_location& location);
// Returns a storage without contents that represents the written bytes: its history contains the copy.
storage_ref download_bytes(stream on, void* to, storage& from, std::size_t bytes, std::shared_ptr<const void> owner,
                           const source_location& location);

// The span that a download fills. It keeps the memory alive until it is opened or dropped.
template <typename T>
class downloaded_span {
public:
    downloaded_span(std::span<T> to, std::shared_ptr<const void> owner, storage_ref landed) noexcept
        : to_(to), owner_(std::move(owner)), landed_(std::move(landed)) {}
    owned_span<T> operator()() && { return {to_, std::move(owner_)}; }

private:
    std::span<T> to_;
    std::shared_ptr<const void> owner_;
    storage_ref landed_;
};
}  // namespace detail

// The operation that download_to returns for a host_buffer.
template <typename T, typename Source>
class download_to_buffer_operation : public operation_base<download_to_buffer_operation<T, Source>> {
public:
    using output = pending<host_buffer<T>>;

    download_to_buffer_operation(Source from, host_buffer<T> to, const source_location& location)
        : from_(std::move(from)), to_(std::move(to)), location_(location) {
        detail::require_download_size(to_.size(), detail::tensor_in(from_).size(), location);
    }

    output submit(execution_context& context) && {
        const tensor<T>& source = detail::tensor_in(from_);
        detail::require_held(source, {"download", context.device().name(), location_});
        if (source.size() != 0) {
            detail::copy_bytes(context.stream(), {"download", {}, location_}, *to_.memory(), *source.memory(),
                               source.size_bytes(), copy_direction::device_to_host);
        }
        storage* const memory = to_.memory();
        return output::from([landed = std::move(to_)]() mutable { return std::move(landed); }, memory);
    }
    work_estimate estimate() const { return {1, to_.size_bytes()}; }

private:
    Source from_;
    host_buffer<T> to_;
    source_location location_;
};

// The operation that download_to returns for a span.
template <typename T, typename Source>
class download_to_span_operation : public operation_base<download_to_span_operation<T, Source>> {
public:
    using output = pending<owned_span<T>>;

    download_to_span_operation(Source from, std::span<T> to, std::shared_ptr<const void> owner,
                               const source_location& location)
        : from_(std::move(from)), to_(to), owner_(std::move(owner)), location_(location) {
        detail::require_download_size(to.size(), detail::tensor_in(from_).size(), location);
        detail::require_download_owner(owner_, to.size(), location);
    }

    output submit(execution_context& context) && {
        const tensor<T>& source = detail::tensor_in(from_);
        storage_ref landed;
        if (source.size() != 0) {
            landed = detail::download_bytes(context.stream(), to_.data(), *source.memory(), source.size_bytes(), owner_,
                                            location_);
        }
        storage* const memory = landed.get();
        return output::from(detail::downloaded_span<T>(to_, owner_, std::move(landed)), memory);
    }
    work_estimate estimate() const { return {1, to_.size_bytes()}; }

private:
    Source from_;
    std::span<T> to_;
    std::shared_ptr<const void> owner_;
    source_location location_;
};

template <typename T>
auto download_to(tensor<T> from, host_buffer<T> to, source_location location = source_location::current()) {
    return download_to_buffer_operation<T, tensor<T>>(std::move(from), std::move(to), location);
}
template <typename T>
auto download_to(shared_tensor<T> from, host_buffer<T> to, source_location location = source_location::current()) {
    return download_to_buffer_operation<T, shared_tensor<T>>(std::move(from), std::move(to), location);
}
template <typename T>
auto download_to(tensor<T> from, std::span<std::type_identity_t<T>> to, std::shared_ptr<void> owner,
                 source_location location = source_location::current()) {
    return download_to_span_operation<T, tensor<T>>(std::move(from), to, std::move(owner), location);
}
template <typename T>
auto download_to(shared_tensor<T> from, std::span<std::type_identity_t<T>> to, std::shared_ptr<void> owner,
                 source_location location = source_location::current()) {
    return download_to_span_operation<T, shared_tensor<T>>(std::move(from), to, std::move(owner), location);
}

// The function object that and_then(download_to(...)) calls once with the tensor. It costs what download_to costs.
template <typename T>
class download_into_buffer {
public:
    // Called by download_to. Costs moves of its arguments.
    download_into_buffer(host_buffer<T> to, const source_location& location)
        : to_(std::move(to)), location_(location) {}

    auto operator()(tensor<T> from) && { return download_to(std::move(from), std::move(to_), location_); }
    auto operator()(shared_tensor<T> from) && { return download_to(std::move(from), std::move(to_), location_); }

private:
    host_buffer<T> to_;
    source_location location_;
};
// The function object that and_then(download_to(span, owner)) calls once with the tensor. It costs what download_to
// costs.
template <typename T>
class download_into_span {
public:
    // Called by download_to. Costs moves of its arguments.
    download_into_span(std::span<T> to, std::shared_ptr<void> owner, const source_location& location)
        : to_(to), owner_(std::move(owner)), location_(location) {}

    auto operator()(tensor<T> from) && { return download_to(std::move(from), to_, std::move(owner_), location_); }
    auto operator()(shared_tensor<T> from) && {
        return download_to(std::move(from), to_, std::move(owner_), location_);
    }

private:
    std::span<T> to_;
    std::shared_ptr<void> owner_;
    source_location location_;
};
template <typename T>
auto download_to(host_buffer<T> to, source_location location = source_location::current()) {
    return download_into_buffer<T>(std::move(to), location);
}
template <typename T>
auto download_to(std::span<T> to, std::shared_ptr<void> owner, source_location location = source_location::current()) {
    return download_into_span<T>(to, std::move(owner), location);
}

}  // namespace sluice

// download_to: a device tensor to host memory that is there already, without another copy on the host.
//
//     download_to(tensor, host_buffer)          -> pending<host_buffer<T>>: the buffer, filled
//     download_to(tensor, span, owner)          -> pending<std::span<T>>: the span, filled
//     and_then(download_to(std::move(buffer)))  -> the same in a chain; and_then(download_to(span, owner))
//
// The tensor may be a shared one. Throws errc::shape_mismatch, when it is made, unless there is exactly room for the
// elements; errc::invalid_argument for a span without an owner. The result can be read only through a wait.
//
// A host buffer may be dropped at any moment, in flight too. A span's memory is kept by `owner` until the copy is over,
// opened or not (and let go no later than with the next copy or wait on that stream, or with the runtime); nobody may
// read or write it until the wait. Memory that is not pinned makes a GPU's driver copy twice, and it may block the
// submitting thread until the stream has come to it: prefer a host_buffer, or a part of one that a shared_ptr owns.
#pragma once

#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "sluice/runtime/transfer.hpp"

namespace sluice {

namespace detail {
// Throws errc::shape_mismatch unless both are of one size.
void require_download_size(std::size_t room, std::size_t size, const source_location& where);
// Throws errc::invalid_argument for memory that nobody keeps.
void require_download_owner(const std::shared_ptr<const void>& owner, std::size_t size, const source_location& where);
// Returns what stands for the bytes that are written, with the history of the copy.
storage_ref download_bytes(stream& on, void* to, storage& from, std::size_t bytes, std::shared_ptr<const void> owner,
                           const source_location& where);
}  // namespace detail

template <typename T, typename Source>
class download_to_buffer_operation : public operation_base<download_to_buffer_operation<T, Source>> {
public:
    using output = pending<host_buffer<T>>;

    download_to_buffer_operation(Source from, host_buffer<T> to, const source_location& where)
        : from_(std::move(from)), to_(std::move(to)), where_(where) {
        detail::require_download_size(to_.size(), detail::tensor_in(from_).size(), where);
    }

    output submit(execution_context& context) && {
        const tensor<T>& source = detail::tensor_in(from_);
        if (source.size() != 0) {
            detail::copy_bytes(context.stream(), {"download", {}, where_}, *to_.memory(), *source.memory(),
                               source.size_bytes(), copy_direction::device_to_host);
        }
        storage* const memory = to_.memory();
        return output::from([landed = std::move(to_)]() mutable { return std::move(landed); }, memory);
    }
    work_estimate estimate() const { return {1, to_.size_bytes()}; }

private:
    Source from_;
    host_buffer<T> to_;
    source_location where_;
};

template <typename T, typename Source>
class download_to_span_operation : public operation_base<download_to_span_operation<T, Source>> {
public:
    using output = pending<std::span<T>>;

    download_to_span_operation(Source from, std::span<T> to, std::shared_ptr<const void> owner,
                               const source_location& where)
        : from_(std::move(from)), to_(to), owner_(std::move(owner)), where_(where) {
        detail::require_download_size(to.size(), detail::tensor_in(from_).size(), where);
        detail::require_download_owner(owner_, to.size(), where);
    }

    output submit(execution_context& context) && {
        const tensor<T>& source = detail::tensor_in(from_);
        storage_ref landed;
        if (source.size() != 0) {
            landed = detail::download_bytes(context.stream(), to_.data(), *source.memory(), source.size_bytes(),
                                            std::move(owner_), where_);
        }
        storage* const memory = landed.get();
        return output::from([to = to_, landed = std::move(landed)] { return to; }, memory);
    }
    work_estimate estimate() const { return {1, to_.size_bytes()}; }

private:
    Source from_;
    std::span<T> to_;
    std::shared_ptr<const void> owner_;
    source_location where_;
};

template <typename T>
auto download_to(tensor<T> from, host_buffer<T> to, source_location where = source_location::current()) {
    return download_to_buffer_operation<T, tensor<T>>(std::move(from), std::move(to), where);
}
template <typename T>
auto download_to(shared_tensor<T> from, host_buffer<T> to, source_location where = source_location::current()) {
    return download_to_buffer_operation<T, shared_tensor<T>>(std::move(from), std::move(to), where);
}
template <typename T>
auto download_to(tensor<T> from, std::span<std::type_identity_t<T>> to, std::shared_ptr<void> owner,
                 source_location where = source_location::current()) {
    return download_to_span_operation<T, tensor<T>>(std::move(from), to, std::move(owner), where);
}
template <typename T>
auto download_to(shared_tensor<T> from, std::span<std::type_identity_t<T>> to, std::shared_ptr<void> owner,
                 source_location where = source_location::current()) {
    return download_to_span_operation<T, shared_tensor<T>>(std::move(from), to, std::move(owner), where);
}

// What and_then(download_to(...)) calls with the tensor, once.
template <typename T>
class download_into_buffer {
public:
    download_into_buffer(host_buffer<T> to, const source_location& where) : to_(std::move(to)), where_(where) {}

    auto operator()(tensor<T> from) && { return download_to(std::move(from), std::move(to_), where_); }
    auto operator()(shared_tensor<T> from) && { return download_to(std::move(from), std::move(to_), where_); }

private:
    host_buffer<T> to_;
    source_location where_;
};
template <typename T>
class download_into_span {
public:
    download_into_span(std::span<T> to, std::shared_ptr<void> owner, const source_location& where)
        : to_(to), owner_(std::move(owner)), where_(where) {}

    auto operator()(tensor<T> from) && { return download_to(std::move(from), to_, std::move(owner_), where_); }
    auto operator()(shared_tensor<T> from) && { return download_to(std::move(from), to_, std::move(owner_), where_); }

private:
    std::span<T> to_;
    std::shared_ptr<void> owner_;
    source_location where_;
};
template <typename T>
auto download_to(host_buffer<T> to, source_location where = source_location::current()) {
    return download_into_buffer<T>(std::move(to), where);
}
template <typename T>
auto download_to(std::span<T> to, std::shared_ptr<void> owner, source_location where = source_location::current()) {
    return download_into_span<T>(to, std::move(owner), where);
}

}  // namespace sluice

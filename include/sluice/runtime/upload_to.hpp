// SPDX-License-Identifier: Apache-2.0
// upload_to: copies host data over the contents of a tensor that exists, or of a part of one.
//
//     upload_to(tensor, vector)          -> the tensor; the operation owns the vector
//     upload_to(tensor, span, owner)     -> the same from memory that `owner` keeps alive until the device has read it
//     upload_to(tensor, host_buffer)     -> the same without a copy on the host; the operation consumes the buffer
//
// In a chain: and_then([&](auto x) { return upload_to(std::move(x), values); }). The copy comes after all earlier uses
// of the tensor. How the data travels, and what blocks: as for upload (transfer.hpp).
//
// Errors, thrown when the operation is created: errc::shape_mismatch unless there are as many values as the tensor has
// elements; errc::invalid_argument for a tensor that was moved from.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "sluice/runtime/transfer.hpp"

namespace sluice {

template <typename T>
class upload_to_operation : public operation_base<upload_to_operation<T>> {
public:
    using output = tensor<T>;

    upload_to_operation(tensor<T> to, std::span<const T> from, std::shared_ptr<const void> owner,
                        const source_location& location)
        : to_(std::move(to)), from_(from), owner_(std::move(owner)), location_(location) {
        detail::require_held(to_, {"upload", "", location});
        detail::require_upload_size(from.size(), to_.shape(), location);
    }

    output submit(execution_context& context) && {
        once_.use("upload_to");
        detail::upload_bytes(context.stream(), *to_.memory(), from_.data(), from_.size_bytes(), std::move(owner_),
                             location_);
        return std::move(to_);
    }
    work_estimate estimate() const { return {1, from_.size_bytes()}; }

private:
    tensor<T> to_;
    std::span<const T> from_;
    std::shared_ptr<const void> owner_;
    source_location location_;
    detail::single_use once_;
};

template <typename T>
auto upload_to(tensor<T> to, std::vector<T> values, source_location location = source_location::current()) {
    auto owner = std::make_shared<const std::vector<T>>(std::move(values));
    const std::span<const T> from(*owner);
    return upload_to_operation<T>(std::move(to), from, std::move(owner), location);
}
// Without an owner the memory must live until the operation has been submitted; within a host-driven operation (retry,
// timeout, recover) until the whole operation is over. No thread may write it before. Costs what upload costs, without
// the tensor.
template <typename T>
auto upload_to(tensor<T> to, std::span<const std::type_identity_t<T>> values, std::shared_ptr<const void> owner,
               source_location location = source_location::current()) {
    return upload_to_operation<T>(std::move(to), values, std::move(owner), location);
}

// The operation that upload_to returns for a host_buffer.
template <typename T>
class upload_buffer_to_operation : public operation_base<upload_buffer_to_operation<T>> {
public:
    using output = tensor<T>;

    upload_buffer_to_operation(tensor<T> to, host_buffer<T> from, const source_location& location)
        : to_(std::move(to)), from_(std::move(from)), location_(location) {
        detail::require_held(to_, {"upload", "", location});
        detail::require_upload_size(from_.size(), to_.shape(), location);
    }

    output submit(execution_context& context) && {
        once_.use("upload_to");
        if (to_.size() != 0) {
            detail::copy_bytes(context.stream(), {"upload", {}, location_}, *to_.memory(), *from_.memory(),
                               to_.size_bytes(), copy_direction::host_to_device);
        }
        from_ = {};
        return std::move(to_);
    }
    work_estimate estimate() const { return {1, from_.size_bytes()}; }

private:
    tensor<T> to_;
    host_buffer<T> from_;
    source_location location_;
    detail::single_use once_;
};
template <typename T>
auto upload_to(tensor<T> to, host_buffer<T> values, source_location location = source_location::current()) {
    return upload_buffer_to_operation<T>(std::move(to), std::move(values), location);
}

}  // namespace sluice

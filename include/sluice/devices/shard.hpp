// SPDX-License-Identifier: Apache-2.0
// shard: splits the rows of a batch among the devices of a set. gather: joins the rows of several tensors to one
// tensor.
//
//     shard(all, std::move(values), {1000, 784})    -> std::vector<tensor<T>>: from the host, each part on its device
//     shard(all, tensor)                            -> the same from a tensor on any of the devices
//     gather(std::vector<tensor<T>>)                -> tensor<T> on the context's device; and_then(gather)
//     download_each(std::vector<tensor<T>>)         -> std::vector<pending<std::vector<T>>>; and_then(download_each)
//
// Part i of n rows over k devices has the rows from i*n/k up to (i+1)*n/k; it is empty when there are fewer rows than
// devices. (download takes several tensors, too, but of one device, and returns one vector.) A row is everything but
// the first dimension. Copies between devices are copy_to's, with its rules.
//
// Each costs one copy command for each part that is not empty; shard also a tensor for each part, and gather one
// tensor.
#pragma once

#include <utility>
#include <vector>

#include "sluice/devices/copy_to.hpp"
#include "sluice/devices/detail/rows.hpp"
#include "sluice/devices/device_set.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice {

// The operation that shard of a vector returns. Throws errc::shape_mismatch unless the vector fills the shape.
template <typename T>
class shard_upload_operation : public operation_base<shard_upload_operation<T>> {
public:
    using output = std::vector<tensor<T>>;

    shard_upload_operation(device_set devices, std::vector<T> from, const shape& whole, const source_location& location)
        : devices_(std::move(devices)),
          from_(std::make_shared<const std::vector<T>>(std::move(from))),
          whole_(whole),
          location_(location) {
        detail::require_upload_size(from_->size(), whole, location);
    }

    output submit(execution_context& context) && {
        const std::size_t rows = detail::rows_to_split(whole_, location_);
        const std::size_t row = rows == 0 ? 0 : whole_.size() / rows;
        output made;
        made.reserve(devices_.size());
        for (std::size_t i = 0; i < devices_.size(); ++i) {
            const auto [first, count] = detail::part_of_rows(rows, i, devices_.size());
            const auto values = std::span(*from_).subspan(first * row, count * row);
            made.push_back(
                upload(values, from_, detail::with_rows(whole_, count), location_).submit(context.on(devices_[i])));
        }
        return made;
    }
    work_estimate estimate() const { return {devices_.size(), from_->size() * sizeof(T)}; }

private:
    device_set devices_;
    std::shared_ptr<const std::vector<T>> from_;
    shape whole_;
    source_location location_;
};

template <typename T>
class shard_operation : public operation_base<shard_operation<T>> {
public:
    using output = std::vector<tensor<T>>;

    shard_operation(device_set devices, tensor<T> from, const source_location& location)
        : devices_(std::move(devices)), from_(std::move(from)), location_(location) {}

    output submit(execution_context& context) && {
        const tensor<T> from = std::move(from_);
        const std::size_t rows = detail::rows_to_split(from.shape(), location_);
        const std::size_t row_bytes = rows == 0 ? 0 : from.size_bytes() / rows;
        const command_info info{"shard", {}, location_};
        output made;
        made.reserve(devices_.size());
        for (std::size_t i = 0; i < devices_.size(); ++i) {
            const auto [first, count] = detail::part_of_rows(rows, i, devices_.size());
            stream there = context.on(devices_[i]).stream();
            made.emplace_back(there, detail::with_rows(from.shape(), count), info);
            if (made.back().size() == 0) continue;
            detail::copy_across(there, info, *made.back().memory(), 0, *from.memory(), first * row_bytes,
                                count * row_bytes);
        }
        return made;
    }
    work_estimate estimate() const { return {devices_.size(), from_.size_bytes()}; }

private:
    device_set devices_;
    tensor<T> from_;
    source_location location_;
};

template <typename T>
auto shard(device_set devices, std::vector<T> from, const shape& whole,
           source_location location = source_location::current()) {
    return shard_upload_operation<T>(std::move(devices), std::move(from), whole, location);
}
template <typename T>
auto shard(device_set devices, tensor<T> from, source_location location = source_location::current()) {
    return shard_operation<T>(std::move(devices), std::move(from), location);
}

// The operation that gather returns.
template <typename T>
class gather_operation : public operation_base<gather_operation<T>> {
public:
    using output = tensor<T>;

    gather_operation(std::vector<tensor<T>> parts, const source_location& location)
        : parts_(std::move(parts)), location_(location) {}
    gather_operation(gather_operation&&) noexcept = default;  // tensors in a vector cannot be copied

    output submit(execution_context& context) && {
        std::vector<shape> shapes;
        for (const tensor<T>& each : parts_) shapes.push_back(each.shape());
        const command_info info{"gather", {}, location_};
        tensor<T> made(context.stream(), detail::gathered_shape(shapes, location_), info);
        std::size_t offset = 0;
        for (const tensor<T>& each : parts_) {
            if (each.size() == 0) continue;
            detail::copy_across(context.stream(), info, *made.memory(), offset, *each.memory(), 0, each.size_bytes());
            offset += each.size_bytes();
        }
        parts_.clear();
        return made;
    }
    work_estimate estimate() const {
        work_estimate all;
        for (const tensor<T>& each : parts_) all = all + work_estimate{1, each.size_bytes()};
        return all;
    }

private:
    std::vector<tensor<T>> parts_;
    source_location location_;
};

// gather(parts) is an operation; and_then(gather) continues one that returns a vector of tensors. It costs one tensor
// and a copy command for each part that is not empty.
struct gather_function {
    template <typename T>
    auto operator()(std::vector<tensor<T>> parts, source_location location = source_location::current()) const {
        return gather_operation<T>(std::move(parts), location);
    }
};
inline constexpr gather_function gather{};  // see gather_function

// The operation that download_each returns.
template <typename T>
class download_each_operation : public operation_base<download_each_operation<T>> {
public:
    using output = std::vector<pending<std::vector<T>>>;

    explicit download_each_operation(std::vector<tensor<T>> parts) : parts_(std::move(parts)) {}
    download_each_operation(download_each_operation&&) noexcept = default;  // tensors in a vector cannot be copied

    output submit(execution_context& context) && {
        output made;
        made.reserve(parts_.size());
        for (tensor<T>& each : parts_) {
            execution_context& there = each.memory() == nullptr ? context : context.on(each.memory()->owner());
            made.push_back(download(std::move(each)).submit(there));
        }
        return made;
    }
    work_estimate estimate() const { return {.commands = parts_.size()}; }

private:
    std::vector<tensor<T>> parts_;
};

// download_each(parts) is an operation; and_then(download_each) continues one that returns a vector of tensors. It
// costs what download costs for each part.
struct download_each_function {
    template <typename T>
    auto operator()(std::vector<tensor<T>> parts) const {
        return download_each_operation<T>(std::move(parts));
    }
};
inline constexpr download_each_function download_each{};  // see download_each_function

}  // namespace sluice

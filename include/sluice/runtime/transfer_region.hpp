// SPDX-License-Identifier: Apache-2.0
// Regions of tensors, between host and device: upload_to a region, download_region, download_to from a region.
//
//     const region where{.at = {2, 8}, .shape = {4, 16}};
//     upload_to(x, where, vector)             -> x; the vector holds the 64 elements of the region, row by row
//     upload_to(x, where, span, owner)        -> the same from memory that `owner` keeps alive
//     upload_to(x, where, host_buffer)        -> the same; the operation consumes the buffer
//     upload_to(on, x, where, span, owner)    submits to a stream at once; x stays the caller's
//     download_region(x, where)               -> x and pending<std::vector<T>>
//     download_to(x, where, host_buffer)      -> x and pending<host_buffer<T>>
//     download_to(x, where, span, owner)      -> x and pending<owned_span<T>>
//     and_then(download_region(where))        -> as in a chain: x and the pending vector
//
// Host memory that holds a larger matrix says with one more argument where the region is in it (region.hpp). Nothing
// else of that memory is read or written:
//
//     upload_to(x, where, pixels, owner, {.whole = {480, 640}, .at = {100, 200}})
//
// Where `x` is a shared tensor, which can only be read, the output is only what was downloaded. For the order of
// commands, each of these is a use of the whole tensor. A region of a matrix is one command; a box is one for each
// plane that it has. How the data travels, what blocks, and how long the host memory is used: as for upload
// (transfer.hpp) and download_to (download_to.hpp).
//
// Errors, thrown when the operation is created: errc::shape_mismatch for a region that is not inside the tensor or the
// host memory, and for host memory of another size; errc::invalid_argument for a tensor that was moved from, and for
// memory to download to that has no owner.
//
// All functions here take constant time, but for the plain form, which costs what submitting the operation costs: one
// command for each plane of the region, and the copies on the host that upload makes.
#pragma once

#include <memory>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "sluice/runtime/download_to.hpp"
#include "sluice/runtime/region.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice {

namespace detail {
void copy_region_bytes(stream on, const command_info& info, storage& to, storage& from, const region_copy& what,
                       copy_direction direction);
// When `owner` is empty the memory is not needed after the call.
void upload_region_bytes(stream on, storage& to, const void* from, std::shared_ptr<const void> owner,
                         const region_copy& what, const source_location& location);
// Returns a storage without contents that represents the written bytes: its history contains the copy.
storage_ref download_region_bytes(stream on, void* to, const std::shared_ptr<const void>& owner, storage& from,
                                  const region_copy& what, const source_location& location);

// Checks the arguments of an upload to a region.
template <typename T>
region_copy upload_to_region(const tensor<T>& to, const region& where, std::size_t size, const host_layout& layout,
                             const source_location& location) {
    const error_context context{"upload", "", location};
    require_held(to, context);
    require_region(to.shape(), where, context);
    const host_layout there = require_layout(size, where, layout, context);
    return {where.shape, sizeof(T), there.whole, there.at, to.shape(), where.at};
}
// The same for a download.
template <typename T>
region_copy download_from_region(const tensor<T>& from, const region& where, std::size_t size,
                                 const host_layout& layout, const source_location& location) {
    const error_context context{"download", "", location};
    require_held(from, context);
    require_region(from.shape(), where, context);
    const host_layout there = require_layout(size, where, layout, context);
    return {where.shape, sizeof(T), from.shape(), where.at, there.whole, there.at};
}

// What an operation returns that made something from a tensor: a tensor is given back as well.
template <typename Source, typename Made>
struct with_source {
    using type = std::tuple<Source, Made>;
    static type give(Source&& from, Made&& made) { return {std::move(from), std::move(made)}; }
};
template <typename T, typename Made>
struct with_source<shared_tensor<T>, Made> {
    using type = Made;
    static type give(shared_tensor<T>&&, Made&& made) { return std::move(made); }
};
}  // namespace detail

// The operation that upload_to a region returns, for a vector or a span.
template <typename T>
class upload_region_operation : public operation_base<upload_region_operation<T>> {
public:
    using output = tensor<T>;

    upload_region_operation(tensor<T> to, const region& where, std::span<const T> from,
                            std::shared_ptr<const void> owner, const host_layout& layout,
                            const source_location& location)
        : what_(detail::upload_to_region(to, where, from.size(), layout, location)),
          to_(std::move(to)),
          from_(from.data()),
          owner_(std::move(owner)),
          location_(location) {}

    output submit(execution_context& context) && {
        once_.use("upload_to");
        detail::upload_region_bytes(context.stream(), *to_.memory(), from_, std::move(owner_), what_, location_);
        return std::move(to_);
    }
    work_estimate estimate() const { return {what_.commands(), what_.bytes()}; }

private:
    detail::region_copy what_;
    tensor<T> to_;
    const T* from_;
    std::shared_ptr<const void> owner_;
    source_location location_;
    detail::single_use once_;
};

template <typename T>
auto upload_to(tensor<T> to, const region& where, std::vector<T> values, const host_layout& layout = {},
               source_location location = source_location::current()) {
    auto owner = std::make_shared<const std::vector<T>>(std::move(values));
    const std::span<const T> from(*owner);
    return upload_region_operation<T>(std::move(to), where, from, std::move(owner), layout, location);
}
// Without an owner the memory must live until the operation has been submitted. No thread may write it before.
template <typename T>
auto upload_to(tensor<T> to, const region& where, std::span<const std::type_identity_t<T>> values,
               std::shared_ptr<const void> owner, const host_layout& layout = {},
               source_location location = source_location::current()) {
    return upload_region_operation<T>(std::move(to), where, values, std::move(owner), layout, location);
}
template <typename T>
void upload_to(stream on, tensor<T>& to, const region& where, std::span<const std::type_identity_t<T>> values,
               std::shared_ptr<const void> owner, const host_layout& layout = {},
               source_location location = source_location::current()) {
    const detail::region_copy what = detail::upload_to_region(to, where, values.size(), layout, location);
    detail::upload_region_bytes(on, *to.memory(), values.data(), std::move(owner), what, location);
}

// The operation that upload_to a region returns, for a host_buffer.
template <typename T>
class upload_region_buffer_operation : public operation_base<upload_region_buffer_operation<T>> {
public:
    using output = tensor<T>;

    upload_region_buffer_operation(tensor<T> to, const region& where, host_buffer<T> from, const host_layout& layout,
                                   const source_location& location)
        : what_(detail::upload_to_region(to, where, from.size(), layout, location)),
          to_(std::move(to)),
          from_(std::move(from)),
          location_(location) {}

    output submit(execution_context& context) && {
        once_.use("upload_to");
        if (what_.commands() != 0) {
            detail::copy_region_bytes(context.stream(), {"upload", {}, location_}, *to_.memory(), *from_.memory(),
                                      what_, copy_direction::host_to_device);
        }
        from_ = {};
        return std::move(to_);
    }
    work_estimate estimate() const { return {what_.commands(), what_.bytes()}; }

private:
    detail::region_copy what_;
    tensor<T> to_;
    host_buffer<T> from_;
    source_location location_;
    detail::single_use once_;
};
template <typename T>
auto upload_to(tensor<T> to, const region& where, host_buffer<T> values, const host_layout& layout = {},
               source_location location = source_location::current()) {
    return upload_region_buffer_operation<T>(std::move(to), where, std::move(values), layout, location);
}

template <typename T, typename Source>
class download_region_operation : public operation_base<download_region_operation<T, Source>> {
    using landed = pending<std::vector<T>>;

public:
    using output = typename detail::with_source<Source, landed>::type;

    download_region_operation(Source from, const region& where, const source_location& location)
        : what_(detail::download_from_region(detail::tensor_in(from), where, where.shape.size(), host_layout{},
                                             location)),
          from_(std::move(from)),
          size_(where.shape.size()),
          location_(location) {}

    output submit(execution_context& context) && {
        once_.use("download_region");
        const command_info info{"download", {}, location_};
        host_buffer<T> to(context.stream(), size_, info);
        if (size_ != 0) {
            detail::copy_region_bytes(context.stream(), info, *to.memory(), *detail::tensor_in(from_).memory(), what_,
                                      copy_direction::device_to_host);
        }
        return detail::with_source<Source, landed>::give(
            std::move(from_), landed::from(detail::downloaded_vector<T>(storage_ref(to.memory()), size_), to.memory()));
    }
    work_estimate estimate() const { return {what_.commands(), what_.bytes()}; }

private:
    detail::region_copy what_;
    Source from_;
    std::size_t size_;
    source_location location_;
    detail::single_use once_;
};

// The operation: the elements of the region as a vector. Its outputs: `from`, unless it is shared, and the pending
// vector.
template <typename T>
auto download_region(tensor<T> from, const region& where, source_location location = source_location::current()) {
    return download_region_operation<T, tensor<T>>(std::move(from), where, location);
}
template <typename T>
auto download_region(shared_tensor<T> from, const region& where,
                     source_location location = source_location::current()) {
    return download_region_operation<T, shared_tensor<T>>(std::move(from), where, location);
}

// The function of a tensor, for and_then.
class download_region_function {
public:
    // Called by download_region.
    download_region_function(const region& where, const source_location& location)
        : where_(where), location_(location) {}

    template <typename T>
    auto operator()(tensor<T> from) const {
        return download_region(std::move(from), where_, location_);
    }
    template <typename T>
    auto operator()(shared_tensor<T> from) const {
        return download_region(std::move(from), where_, location_);
    }

private:
    region where_;
    source_location location_;
};
inline auto download_region(const region& where, source_location location = source_location::current()) {
    return download_region_function(where, location);
}

// The operation that download_to from a region returns, for a host_buffer.
template <typename T, typename Source>
class download_region_to_buffer_operation : public operation_base<download_region_to_buffer_operation<T, Source>> {
    using landed = pending<host_buffer<T>>;

public:
    using output = typename detail::with_source<Source, landed>::type;

    download_region_to_buffer_operation(Source from, const region& where, host_buffer<T> to, const host_layout& layout,
                                        const source_location& location)
        : what_(detail::download_from_region(detail::tensor_in(from), where, to.size(), layout, location)),
          from_(std::move(from)),
          to_(std::move(to)),
          location_(location) {}

    output submit(execution_context& context) && {
        if (what_.commands() != 0) {
            detail::copy_region_bytes(context.stream(), {"download", {}, location_}, *to_.memory(),
                                      *detail::tensor_in(from_).memory(), what_, copy_direction::device_to_host);
        }
        storage* const memory = to_.memory();
        return detail::with_source<Source, landed>::give(
            std::move(from_), landed::from([made = std::move(to_)]() mutable { return std::move(made); }, memory));
    }
    work_estimate estimate() const { return {what_.commands(), what_.bytes()}; }

private:
    detail::region_copy what_;
    Source from_;
    host_buffer<T> to_;
    source_location location_;
};

// The operation that download_to from a region returns, for a span.
template <typename T, typename Source>
class download_region_to_span_operation : public operation_base<download_region_to_span_operation<T, Source>> {
    using landed = pending<owned_span<T>>;

public:
    using output = typename detail::with_source<Source, landed>::type;

    download_region_to_span_operation(Source from, const region& where, std::span<T> to,
                                      std::shared_ptr<const void> owner, const host_layout& layout,
                                      const source_location& location)
        : what_(detail::download_from_region(detail::tensor_in(from), where, to.size(), layout, location)),
          from_(std::move(from)),
          to_(to),
          owner_(std::move(owner)),
          location_(location) {
        detail::require_download_owner(owner_, to.size(), location);
    }

    output submit(execution_context& context) && {
        storage_ref made;
        if (what_.commands() != 0) {
            made = detail::download_region_bytes(context.stream(), to_.data(), owner_,
                                                 *detail::tensor_in(from_).memory(), what_, location_);
        }
        storage* const memory = made.get();
        return detail::with_source<Source, landed>::give(
            std::move(from_), landed::from(detail::downloaded_span<T>(to_, owner_, std::move(made)), memory));
    }
    work_estimate estimate() const { return {what_.commands(), what_.bytes()}; }

private:
    detail::region_copy what_;
    Source from_;
    std::span<T> to_;
    std::shared_ptr<const void> owner_;
    source_location location_;
};

// The operations: the region to this host memory. The outputs: `from`, unless it is shared, and the pending host
// memory.
template <typename T>
auto download_to(tensor<T> from, const region& where, host_buffer<T> to, const host_layout& layout = {},
                 source_location location = source_location::current()) {
    return download_region_to_buffer_operation<T, tensor<T>>(std::move(from), where, std::move(to), layout, location);
}
template <typename T>
auto download_to(shared_tensor<T> from, const region& where, host_buffer<T> to, const host_layout& layout = {},
                 source_location location = source_location::current()) {
    return download_region_to_buffer_operation<T, shared_tensor<T>>(std::move(from), where, std::move(to), layout,
                                                                    location);
}
template <typename T>
auto download_to(tensor<T> from, const region& where, std::span<std::type_identity_t<T>> to,
                 std::shared_ptr<void> owner, const host_layout& layout = {},
                 source_location location = source_location::current()) {
    return download_region_to_span_operation<T, tensor<T>>(std::move(from), where, to, std::move(owner), layout,
                                                           location);
}
template <typename T>
auto download_to(shared_tensor<T> from, const region& where, std::span<std::type_identity_t<T>> to,
                 std::shared_ptr<void> owner, const host_layout& layout = {},
                 source_location location = source_location::current()) {
    return download_region_to_span_operation<T, shared_tensor<T>>(std::move(from), where, to, std::move(owner), layout,
                                                                  location);
}

}  // namespace sluice

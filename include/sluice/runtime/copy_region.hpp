// SPDX-License-Identifier: Apache-2.0
// Copies on one device: a region of a tensor into a new tensor, and over a tensor that exists or a region of it.
//
//     const region where{.at = {2, 8}, .shape = {4, 16}};
//     copy_region(x, where)               -> x and a new tensor of shape [4, 16]
//     and_then(copy_region(where))        -> the same in a chain
//     copy_to(y, x)                       -> y and x; y, which may be a part, has the contents of x
//     copy_to(y, to, x, from)             -> the same between a region of y and one of x
//     copy_to(y, to, x)                   -> all of x to a region of y
//     copy_to(y, x, from)                 -> a region of x to all of y
//     copy_within(x, to, from)            -> x; from one region to another that does not overlap it
//     copy_to(on, y, to, x, from)         submits to a stream at once; the tensors stay the caller's
//     copy_to(on, y, x)                   the same for whole tensors
//
// Where `x` is a shared tensor, which can only be read, the output is only what was written. (copy_to(device, x) makes
// a copy on another device: devices/copy_to.hpp.)
//
// A region of a matrix is one command; a box is one for each plane that it has. Nothing blocks. For the order of
// commands, each is a use of the whole tensor: copies to two regions of one tensor run one after the other.
//
// Errors, thrown when the operation is created, or before the plain form submits: errc::shape_mismatch for a region
// that is not inside its tensor, and for regions of different shapes; errc::invalid_argument for a tensor that was
// moved from, and for overlapping regions of one tensor. Tensors of two devices: errc::invalid_argument at submission.
//
// All functions here take constant time, but for the plain form, which submits one command for each plane of the
// region.
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>

#include "sluice/runtime/transfer_region.hpp"

namespace sluice {

namespace detail {
template <typename Source, typename T>
concept source_of = std::is_same_v<Source, tensor<T>> || std::is_same_v<Source, shared_tensor<T>>;

template <typename T>
region all_of(const tensor<T>& x) {
    return {.at = {}, .shape = x.shape()};
}
template <typename T>
region all_of(const shared_tensor<T>& x) {
    return {.at = {}, .shape = x->shape()};
}

// Checks the arguments of a copy between regions.
template <typename T>
region_copy between_regions(const tensor<T>& to, const region& to_where, const tensor<T>& from,
                            const region& from_where, const source_location& location) {
    const error_context context{"copy", "", location};
    require_held(to, context);
    require_held(from, context);
    require_region(to.shape(), to_where, context);
    require_region(from.shape(), from_where, context);
    require_same_shape(to_where, from_where, context);
    if (to.memory() == from.memory()) require_apart(to_where, from_where, context);
    return {to_where.shape, sizeof(T), from.shape(), from_where.at, to.shape(), to_where.at};
}

template <typename T>
void copy_between(stream on, const region_copy& what, const tensor<T>& to, const tensor<T>& from,
                  const source_location& location) {
    if (what.commands() == 0) return;
    copy_region_bytes(on, {"copy", {}, location}, *to.memory(), *from.memory(), what, copy_direction::device_to_device);
}
}  // namespace detail

// The plain form: submits to a stream at once, and does not block. The tensors stay the caller's.
template <typename T>
void copy_to(stream on, tensor<T>& to, const region& to_where, const tensor<T>& from, const region& from_where,
             source_location location = source_location::current()) {
    const detail::region_copy what = detail::between_regions(to, to_where, from, from_where, location);
    detail::copy_between(on, what, to, from, location);
}
template <typename T>
void copy_to(stream on, tensor<T>& to, const tensor<T>& from, source_location location = source_location::current()) {
    copy_to(on, to, detail::all_of(to), from, detail::all_of(from), location);
}

template <typename T, typename Source>
class copy_region_operation : public operation_base<copy_region_operation<T, Source>> {
public:
    using output = typename detail::with_source<Source, tensor<T>>::type;

    copy_region_operation(Source from, const region& where, const source_location& location)
        : from_(std::move(from)), where_(where), location_(location) {
        const error_context context{"copy", "", location};
        detail::require_held(from_, context);
        detail::require_region(detail::tensor_in(from_).shape(), where, context);
    }

    output submit(execution_context& context) && {
        once_.use("copy_region");
        tensor<T> made(context.stream(), where_.shape, {"copy", {}, location_});
        copy_to(context.stream(), made, detail::all_of(made), detail::tensor_in(from_), where_, location_);
        return detail::with_source<Source, tensor<T>>::give(std::move(from_), std::move(made));
    }
    work_estimate estimate() const { return {1, where_.shape.size() * sizeof(T)}; }

private:
    Source from_;
    region where_;
    source_location location_;
    detail::single_use once_;
};

// The operation: a new tensor with the elements of the region. Its outputs: `from`, unless it is shared, and the new
// one.
template <typename T>
auto copy_region(tensor<T> from, const region& where, source_location location = source_location::current()) {
    return copy_region_operation<T, tensor<T>>(std::move(from), where, location);
}
template <typename T>
auto copy_region(shared_tensor<T> from, const region& where, source_location location = source_location::current()) {
    return copy_region_operation<T, shared_tensor<T>>(std::move(from), where, location);
}

// The function of a tensor, for and_then.
class copy_region_function {
public:
    // Called by copy_region.
    copy_region_function(const region& where, const source_location& location) : where_(where), location_(location) {}

    template <typename T>
    auto operator()(tensor<T> from) const {
        return copy_region(std::move(from), where_, location_);
    }
    template <typename T>
    auto operator()(shared_tensor<T> from) const {
        return copy_region(std::move(from), where_, location_);
    }

private:
    region where_;
    source_location location_;
};
inline auto copy_region(const region& where, source_location location = source_location::current()) {
    return copy_region_function(where, location);
}

// The operation that copy_to returns.
template <typename T, typename Source>
class copy_between_operation : public operation_base<copy_between_operation<T, Source>> {
    static constexpr bool is_shared = std::is_same_v<Source, shared_tensor<T>>;

public:
    using output = std::conditional_t<is_shared, tensor<T>, std::tuple<tensor<T>, tensor<T>>>;

    copy_between_operation(tensor<T> to, const region& to_where, Source from, const region& from_where,
                           const source_location& location)
        : what_(detail::between_regions(to, to_where, detail::tensor_in(from), from_where, location)),
          to_(std::move(to)),
          from_(std::move(from)),
          location_(location) {}

    output submit(execution_context& context) && {
        once_.use("copy_to");
        detail::copy_between(context.stream(), what_, to_, detail::tensor_in(from_), location_);
        if constexpr (is_shared) {
            return std::move(to_);
        } else {
            return {std::move(to_), std::move(from_)};
        }
    }
    work_estimate estimate() const { return {what_.commands(), what_.bytes()}; }

private:
    detail::region_copy what_;
    tensor<T> to_;
    Source from_;
    source_location location_;
    detail::single_use once_;
};

template <typename T, detail::source_of<T> Source>
auto copy_to(tensor<T> to, const region& to_where, Source from, const region& from_where,
             source_location location = source_location::current()) {
    return copy_between_operation<T, Source>(std::move(to), to_where, std::move(from), from_where, location);
}
template <typename T, detail::source_of<T> Source>
auto copy_to(tensor<T> to, const region& to_where, Source from, source_location location = source_location::current()) {
    const region all = detail::all_of(from);
    return copy_between_operation<T, Source>(std::move(to), to_where, std::move(from), all, location);
}
template <typename T, detail::source_of<T> Source>
auto copy_to(tensor<T> to, Source from, const region& from_where,
             source_location location = source_location::current()) {
    const region all = detail::all_of(to);
    return copy_between_operation<T, Source>(std::move(to), all, std::move(from), from_where, location);
}
template <typename T, detail::source_of<T> Source>
auto copy_to(tensor<T> to, Source from, source_location location = source_location::current()) {
    const region to_all = detail::all_of(to), from_all = detail::all_of(from);
    return copy_between_operation<T, Source>(std::move(to), to_all, std::move(from), from_all, location);
}

template <typename T>
class copy_within_operation : public operation_base<copy_within_operation<T>> {
public:
    using output = tensor<T>;

    copy_within_operation(tensor<T> x, const region& to, const region& from, const source_location& location)
        : what_(detail::between_regions(x, to, x, from, location)), x_(std::move(x)), location_(location) {}

    output submit(execution_context& context) && {
        once_.use("copy_within");
        detail::copy_between(context.stream(), what_, x_, x_, location_);
        return std::move(x_);
    }
    work_estimate estimate() const { return {what_.commands(), what_.bytes()}; }

private:
    detail::region_copy what_;
    tensor<T> x_;
    source_location location_;
    detail::single_use once_;
};

// The operation: copies one region of `x` to another that does not overlap it. Its output is `x`.
template <typename T>
auto copy_within(tensor<T> x, const region& to, const region& from,
                 source_location location = source_location::current()) {
    return copy_within_operation<T>(std::move(x), to, from, location);
}

}  // namespace sluice

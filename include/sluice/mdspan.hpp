// SPDX-License-Identifier: Apache-2.0
// Adaptor for mdspan: tensors, shapes and views as std::mdspan or cuda::std::mdspan, and back.
//
//     using table = cuda::std::mdspan<const float, cuda::std::dextents<std::size_t, 3>>;   // or std::mdspan
//
//     struct sum_of_planes {                                       // a kernel that reads a tensor of three dimensions
//         SLUICE_KERNEL void operator()(index_1d i, table x, disjoint_view<float> sums) const { ... x(p, r, c) ... }
//     };
//     launch(sum_of_planes{}, x, std::move(sums))                  // x is a tensor<float> or a shared_tensor<float>
//
//     auto m = as_mdspan<table>(values, {2, 3, 4});                // on the host, over a vector
//     upload(std::vector(elements_of(m).begin(), elements_of(m).end()), shape_of(m))
//
// Optional: no other header includes it. It knows std::mdspan where the standard library has it (__cpp_lib_mdspan:
// C++23 with libstdc++ 15 or libc++ 17), and cuda::std::mdspan where CCCL's <cuda/std/mdspan> is found: nvcc always
// finds it, other compilers with the toolkit's include/cccl among their include folders. nvcc compiles
// cuda::std::mdspan for both sides; std::mdspan is for host code.
//
// A tensor is row-major, so it is an mdspan with layout_right. A rectangle or box of it is one with layout_stride. An
// mdspan with another layout or accessor is refused when it is compiled. No mdspan owns memory or names a storage:
// one over a tensor on a device is valid as device_data() is (adopt.hpp, "The way out").
//
// All functions here take constant time: no element is copied.
#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <version>

#include "sluice/base/error.hpp"
#include "sluice/runtime/detail/launch_arguments.hpp"
#include "sluice/runtime/region.hpp"
#include "sluice/runtime/shape.hpp"
#include "sluice/runtime/tensor.hpp"
#include "sluice/runtime/view.hpp"

#if defined(__cpp_lib_mdspan)
#define SLUICE_HAS_STD_MDSPAN 1
#include <mdspan>
#else
// Whether std::mdspan is there: 1 or 0.
#define SLUICE_HAS_STD_MDSPAN 0
#endif
#if __has_include(<cuda/std/mdspan>)
#define SLUICE_HAS_CUDA_STD_MDSPAN 1
#include <cuda/std/array>
#include <cuda/std/mdspan>
#else
// Whether cuda::std::mdspan is there: 1 or 0.
#define SLUICE_HAS_CUDA_STD_MDSPAN 0
#endif
#if !SLUICE_HAS_STD_MDSPAN && !SLUICE_HAS_CUDA_STD_MDSPAN
#error \
    "sluice/mdspan.hpp: there is no mdspan; compile as C++23 with libstdc++ 15 or libc++ 17, or add include/cccl of \
the CUDA toolkit to the include folders"
#endif

namespace sluice {

namespace detail {

template <typename T, typename Extents, bool IsRight, bool IsStrided, bool HasDefaultAccessor>
struct mdspan_properties {
    using element = T;
    using extents = Extents;
    static constexpr bool is_right = IsRight;
    static constexpr bool is_strided = IsStrided;
    static constexpr bool has_default_accessor = HasDefaultAccessor;
};

// Empty for what is no mdspan.
template <typename M>
struct properties_of_mdspan {};
#if SLUICE_HAS_STD_MDSPAN
template <typename T, typename Extents, typename Layout, typename Accessor>
struct properties_of_mdspan<std::mdspan<T, Extents, Layout, Accessor>>
    : mdspan_properties<T, Extents, std::is_same_v<Layout, std::layout_right>,
                        std::is_same_v<Layout, std::layout_stride>,
                        std::is_same_v<Accessor, std::default_accessor<T>>> {
    template <typename Index, std::size_t Count>
    using array = std::array<Index, Count>;
};
#endif
#if SLUICE_HAS_CUDA_STD_MDSPAN
template <typename T, typename Extents, typename Layout, typename Accessor>
struct properties_of_mdspan<::cuda::std::mdspan<T, Extents, Layout, Accessor>>
    : mdspan_properties<T, Extents, std::is_same_v<Layout, ::cuda::std::layout_right>,
                        std::is_same_v<Layout, ::cuda::std::layout_stride>,
                        std::is_same_v<Accessor, ::cuda::std::default_accessor<T>>> {
    template <typename Index, std::size_t Count>
    using array = ::cuda::std::array<Index, Count>;
};
#endif

}  // namespace detail

// std::mdspan and cuda::std::mdspan, of any element type, extents, layout and accessor.
template <typename M>
concept any_mdspan = requires { typename detail::properties_of_mdspan<M>::element; };

namespace detail {

template <any_mdspan M>
constexpr bool check_accessor() {
    static_assert(properties_of_mdspan<M>::has_default_accessor,
                  "mdspan: a tensor's elements are read and written as they are: take the default accessor");
    return true;
}

template <any_mdspan M>
constexpr bool check_row_major() {
    static_assert(properties_of_mdspan<M>::is_right,
                  "mdspan: a tensor is row-major, and its elements follow each other: take layout_right (a region of a "
                  "tensor is layout_stride; what lies in memory in another way is copied first)");
    return check_accessor<M>();
}

template <any_mdspan M>
constexpr bool check_strided() {
    static_assert(properties_of_mdspan<M>::is_strided,
                  "mdspan: the rows of a region or a tile are apart in memory: take layout_stride");
    return check_accessor<M>();
}

// In a kernel nothing can be thrown, so nothing may be left to be checked there.
template <any_mdspan M, std::size_t Rank>
constexpr bool check_dynamic() {
    using extents = typename properties_of_mdspan<M>::extents;
    static_assert(extents::rank() == Rank && extents::rank_dynamic() == Rank,
                  "mdspan: a view in a kernel has one dimension, a matrix or a tile has two: take dextents of as many");
    return true;
}

// The same for kernels: nvcc warns of functions of the host that are named there.
template <any_mdspan M>
inline constexpr bool checked_row_major = check_row_major<M>();
template <any_mdspan M>
inline constexpr bool checked_strided = check_strided<M>();
template <any_mdspan M, std::size_t Rank>
inline constexpr bool checked_dynamic = check_dynamic<M, Rank>();

// Throws errc::shape_mismatch unless an mdspan with these extents can have this shape.
template <typename Extents>
void require_mdspan_shape(const shape& given, const error_context& context) {
    constexpr std::size_t any = static_cast<std::size_t>(-1);  // dynamic_extent
    bool fits = given.rank() == Extents::rank() && std::in_range<typename Extents::index_type>(given.size());
    std::string wanted;
    for (std::size_t i = 0; i != Extents::rank(); ++i) {
        const std::size_t fixed = Extents::static_extent(i);
        fits = fits && (fixed == any || fixed == given[i]);
        wanted += (i == 0 ? "" : ", ") + (fixed == any ? std::string("any") : std::to_string(fixed));
    }
    if (fits) return;
    throw error(errc::shape_mismatch,
                "a tensor of shape " + to_string(given) + " does not fit an mdspan of extents [" + wanted +
                    "] whose index is at most " +
                    std::to_string(std::numeric_limits<typename Extents::index_type>::max()),
                context);
}

template <any_mdspan M>
typename M::extents_type extents_as(const shape& from) {
    using index = typename M::index_type;
    if constexpr (M::rank() == 0) {
        return {};
    } else {
        typename properties_of_mdspan<M>::template array<index, M::rank()> all{};
        for (std::size_t i = 0; i != M::rank(); ++i) all[i] = static_cast<index>(from[i]);
        return typename M::extents_type(all);
    }
}

template <any_mdspan M>
M mdspan_at(typename M::element_type* data, const shape& shape, const error_context& context) {
    static_assert(check_row_major<M>());
    require_mdspan_shape<typename M::extents_type>(shape, context);
    return M(data, extents_as<M>(shape));
}

template <any_mdspan M>
M mdspan_of_region(typename M::element_type* data, const shape& whole, const region& where,
                   const error_context& context) {
    static_assert(check_strided<M>());
    require_region(whole, where, context);
    require_mdspan_shape<typename M::extents_type>(where.shape, context);
    using index = typename M::index_type;
    if (!std::in_range<index>(whole.size())) {
        throw error(errc::shape_mismatch,
                    "a tensor of shape " + to_string(whole) + " has more elements than the index of an mdspan counts",
                    context);
    }
    if constexpr (M::rank() == 0) {
        return M(data, typename M::mapping_type());
    } else {
        typename properties_of_mdspan<M>::template array<index, M::rank()> strides{};
        std::size_t stride = 1, offset = 0;
        for (std::size_t i = M::rank(); i-- > 0;) {
            strides[i] = static_cast<index>(stride);
            offset += where.at[i] * stride;
            stride *= whole[i];
        }
        return M(data + offset, typename M::mapping_type(extents_as<M>(where.shape), strides));
    }
}

// How a launch uses a tensor that it passes as an mdspan.
template <any_mdspan M, typename T>
constexpr argument_use use_as_mdspan() {
    if constexpr (!std::is_same_v<std::remove_const_t<typename M::element_type>, T>) {
        return argument_use::impossible;
    } else {
        static_assert(std::is_const_v<typename M::element_type>,
                      "launch: each index of a kernel could write all elements of this mdspan: read through an mdspan "
                      "of const elements, and write through a disjoint view, or through as_mdspan of a tile");
        static_assert(check_row_major<M>());
        return argument_use::read;
    }
}

template <any_mdspan M, typename T>
struct bound_argument<M, tensor<T>> {
    static constexpr argument_use use = use_as_mdspan<M, T>();
    static M bind(const tensor<T>& from, const error_context& context) {
        require_held(from, context);
        return mdspan_at<M>(from.device_data(), from.shape(), context);
    }
    static storage* memory(const tensor<T>& from) { return from.memory(); }
};

// An mdspan names no storage, so a launch could not order what it reads.
template <any_mdspan M, any_mdspan Given>
struct bound_argument<M, Given> {
    static constexpr bool is_refused() {
        static_assert(!any_mdspan<Given>,
                      "launch: pass the tensor in place of an mdspan over it: the launch names the "
                      "storage that it reads, and an mdspan does not know it");
        return true;
    }
    static constexpr argument_use use = is_refused() ? argument_use::by_value : argument_use::impossible;
    static M bind(const Given& given, const error_context&) { return given; }
};

}  // namespace detail

// The extents as a shape. An mdspan of more than four dimensions does not compile.
template <any_mdspan M>
shape shape_of(const M& from) {
    static_assert(M::rank() <= shape::max_rank, "mdspan: a tensor has at most four dimensions");
    std::array<std::size_t, M::rank()> extents{};
    for (std::size_t i = 0; i != M::rank(); ++i) extents[i] = static_cast<std::size_t>(from.extent(i));
    return shape(std::span<const std::size_t>(extents));
}

// The elements, in the order of a tensor: for upload, adopt and pinned_tensor::write, together with shape_of. An mdspan
// without layout_right and the default accessor does not compile.
template <any_mdspan M>
std::span<typename M::element_type> elements_of(const M& from) {
    static_assert(detail::check_row_major<M>());
    return {from.data_handle(), static_cast<std::size_t>(from.mapping().required_span_size())};
}

// An mdspan over elements on the host: of a vector, of pinned_tensor::change, of an owned_span. Valid as long as the
// elements are. Throws errc::shape_mismatch unless there are as many elements as the shape has, and it fits the
// extents.
template <any_mdspan M>
M as_mdspan(std::span<typename M::element_type> elements, const shape& shape) {
    const error_context context{"as_mdspan"};
    if (elements.size() != shape.size()) {
        throw error(errc::shape_mismatch,
                    std::to_string(elements.size()) + " elements cannot have shape " + to_string(shape), context);
    }
    return detail::mdspan_at<M>(elements.data(), shape, context);
}
// The region of a row-major tensor of shape `whole`, whose elements these are; M has layout_stride. Throws
// errc::shape_mismatch as above, and unless the region is inside.
template <any_mdspan M>
M as_mdspan(std::span<typename M::element_type> elements, const shape& whole, const region& where) {
    const error_context context{"as_mdspan"};
    if (elements.size() != whole.size()) {
        throw error(errc::shape_mismatch,
                    std::to_string(elements.size()) + " elements cannot have shape " + to_string(whole), context);
    }
    return detail::mdspan_of_region<M>(elements.data(), whole, where, context);
}

// An mdspan over a tensor's memory on its device, or over a region of it, for code of others. The address is valid as
// long as the tensor lives, and only while no command writes it: the rules are those of device_data() in adopt.hpp.
// Throws errc::invalid_argument for a tensor that was moved from, errc::shape_mismatch as above.
template <any_mdspan M, typename T>
M as_mdspan(const tensor<T>& from) {
    const error_context context{"as_mdspan"};
    detail::require_held(from, context);
    return detail::mdspan_at<M>(from.device_data(), from.shape(), context);
}
template <any_mdspan M, typename T>
M as_mdspan(const tensor<T>& from, const region& where) {
    const error_context context{"as_mdspan"};
    detail::require_held(from, context);
    return detail::mdspan_of_region<M>(from.device_data(), from.shape(), where, context);
}
template <any_mdspan M, typename T>
M as_mdspan(const shared_tensor<T>& from) {
    static_assert(std::is_const_v<typename M::element_type>, "mdspan: a shared tensor is only to be read");
    return as_mdspan<M>(*from);
}
template <any_mdspan M, typename T>
M as_mdspan(const shared_tensor<T>& from, const region& where) {
    static_assert(std::is_const_v<typename M::element_type>, "mdspan: a shared tensor is only to be read");
    return as_mdspan<M>(*from, where);
}

// In a kernel: what the kernel received as a view, a matrix or a tile. An index of the mdspan is not checked, also with
// SLUICE_CHECK_BOUNDS.
template <any_mdspan M, typename T>
SLUICE_KERNEL M as_mdspan(const view<T>& from) {
    static_assert(detail::checked_row_major<M> && detail::checked_dynamic<M, 1>);
    return M(from.data(), static_cast<typename M::index_type>(from.size()));
}
template <any_mdspan M, typename T>
SLUICE_KERNEL M as_mdspan(const matrix_view<T>& from) {
    static_assert(detail::checked_row_major<M> && detail::checked_dynamic<M, 2>);
    return M(from.data(), static_cast<typename M::index_type>(from.rows()),
             static_cast<typename M::index_type>(from.columns()));
}
template <any_mdspan M, typename T>
SLUICE_KERNEL M as_mdspan(const tile_view<T>& from) {
    static_assert(detail::checked_strided<M> && detail::checked_dynamic<M, 2>);
    using index = typename M::index_type;
    const bool is_empty = from.rows() == 0 || from.columns() == 0;
    const index stride = static_cast<index>(from.rows() > 1 && !is_empty ? &from(1, 0) - &from(0, 0) : from.columns());
    const typename detail::properties_of_mdspan<M>::template array<index, 2> strides{stride, index{1}};
    return M(
        is_empty ? nullptr : &from(0, 0),
        typename M::mapping_type(
            typename M::extents_type(static_cast<index>(from.rows()), static_cast<index>(from.columns())), strides));
}

}  // namespace sluice

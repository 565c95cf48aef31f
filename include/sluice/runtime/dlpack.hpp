// SPDX-License-Identifier: Apache-2.0
// from_dlpack, to_dlpack: tensors from other libraries and for them, without a copy, as DLPack capsules.
//
//     tensor<float> x = from_dlpack<float>(gpu, capsule);               // takes the capsule over
//     shared_tensor<float> w = from_dlpack<const float>(gpu, capsule);  // only to read
//
//     auto capsule = to_dlpack(std::move(y));                   // a DLManagedTensorVersioned
//     auto older = to_dlpack<DLManagedTensor>(std::move(z));    // for libraries before DLPack 1.0
//     other_library_takes(capsule.release());
//
// Both structures are declared in <dlpack/dlpack.h>, which this header does not need and does not disturb.
//
// Import. The tensor is an adopted one (adopt.hpp): the capsule's deleter is called once, after the last command that
// uses the memory, on the runtime's completion thread. The producer's work on the memory must be complete before the
// import. A capsule with the read-only flag can only be imported as const. A refused capsule is not consumed: it still
// belongs to the caller, and its deleter was not called. Nothing that a capsule contains is trusted except its
// addresses. Errors: errc::invalid_argument for a capsule that is malformed, of another element type or on another
// device, or that is not aligned (adopted_alignment); errc::unsupported for a version other than 1, an unknown flag,
// and strides that are not row-major without gaps; errc::shape_mismatch for more than four dimensions.
//
// Export. to_dlpack blocks until no command uses the tensor (a shared one: until no command writes it), so the contents
// are there. Errors: what the commands that made the contents threw; errc::invalid_argument for a tensor that was moved
// from, and on a worker thread of the device; errc::graph_refused inside a function that is being compiled. After an
// error the tensor is unchanged. A shared tensor is exported with the read-only flag, which an unversioned capsule
// does not have: that does not compile. The receiver calls the capsule's deleter once, on any thread, when its
// own work on the memory is complete; this may be after the runtime was destroyed. A capsule that is not given away
// is freed by the pointer that owns it.
//
// Element types: float, double, half, bfloat16, bool, and integers of 8 to 64 bits. A CPU device exchanges kDLCPU, and
// imports kDLCUDAHost too. A GPU exchanges kDLCUDA with its own number.
//
// An import costs what adopt costs. An export costs one allocation, and the wait.
//
// Thread safety: both may be called on any thread.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>

#include "sluice/base/half.hpp"
#include "sluice/runtime/adopt.hpp"

struct DLManagedTensor;
struct DLManagedTensorVersioned;

namespace sluice {

namespace detail {

// A DLDataType with one lane.
struct dlpack_type {
    std::uint8_t code = 0;
    std::uint8_t bits = 0;  // 0: DLPack has no such type
};

template <typename T>
consteval dlpack_type dlpack_type_of() {
    constexpr auto bits = static_cast<std::uint8_t>(8 * sizeof(T));
    if constexpr (std::same_as<T, bool>) {
        return {6, bits};
    } else if constexpr (std::same_as<T, bfloat16>) {
        return {4, bits};
    } else if constexpr (std::same_as<T, half> || std::same_as<T, float> || std::same_as<T, double>) {
        return {2, bits};
    } else if constexpr (std::integral<T> && sizeof(T) <= 8) {
        return {static_cast<std::uint8_t>(std::signed_integral<T> ? 0 : 1), bits};
    } else {
        return {};
    }
}

// Keeps a capsule, and calls its deleter when it is destroyed after consume().
class dlpack_owner;

struct dlpack_import {
    storage_ref memory;
    sluice::shape shape;
    dlpack_owner* owner;  // which the memory keeps
};

dlpack_import import_dlpack(device& on, DLManagedTensor* capsule, dlpack_type element, bool is_written,
                            const source_location& location);
dlpack_import import_dlpack(device& on, DLManagedTensorVersioned* capsule, dlpack_type element, bool is_written,
                            const source_location& location);
void consume(dlpack_owner& owner) noexcept;

// A new capsule over the memory, which it keeps. Blocks, and throws as to_dlpack does.
template <typename Capsule>
Capsule* export_dlpack(storage& memory, const shape& shape, dlpack_type element, bool is_written,
                       const source_location& location);

template <>
DLManagedTensor* export_dlpack(storage& memory, const shape& shape, dlpack_type element, bool is_written,
                               const source_location& location);
template <>
DLManagedTensorVersioned* export_dlpack(storage& memory, const shape& shape, dlpack_type element, bool is_written,
                                        const source_location& location);

struct dlpack_deleter {
    void operator()(DLManagedTensor* capsule) const noexcept;
    void operator()(DLManagedTensorVersioned* capsule) const noexcept;
};

}  // namespace detail

// The element types that DLPack exchanges here: see the top of this file.
template <typename T>
concept dlpack_element = detail::dlpack_type_of<T>().bits != 0;

// The two structures of a capsule, without and with a version.
template <typename Capsule>
concept dlpack_struct = std::same_as<Capsule, DLManagedTensor> || std::same_as<Capsule, DLManagedTensorVersioned>;

// Owns a capsule; release() gives it away.
template <dlpack_struct Capsule = DLManagedTensorVersioned>
using dlpack_capsule = std::unique_ptr<Capsule, detail::dlpack_deleter>;

template <typename T, dlpack_struct Capsule>
requires dlpack_element<std::remove_const_t<T>>
adopted_tensor<T> from_dlpack(device& on, Capsule* capsule,
                              const source_location& location = source_location::current()) {
    constexpr detail::dlpack_type element = detail::dlpack_type_of<std::remove_const_t<T>>();
    detail::dlpack_import made = detail::import_dlpack(on, capsule, element, !std::is_const_v<T>, location);
    adopted_tensor<T> imported = detail::adopted_over<T>(std::move(made.memory), made.shape);
    detail::consume(*made.owner);
    return imported;
}

template <dlpack_struct Capsule = DLManagedTensorVersioned, dlpack_element T>
dlpack_capsule<Capsule> to_dlpack(tensor<T>&& x, const source_location& location = source_location::current()) {
    detail::require_held(x, {"to_dlpack", "", location});
    dlpack_capsule<Capsule> made(
        detail::export_dlpack<Capsule>(*x.memory(), x.shape(), detail::dlpack_type_of<T>(), true, location));
    x = tensor<T>();
    return made;
}

template <dlpack_struct Capsule = DLManagedTensorVersioned, dlpack_element T>
dlpack_capsule<Capsule> to_dlpack(const shared_tensor<T>& x,
                                  const source_location& location = source_location::current()) {
    static_assert(std::same_as<Capsule, DLManagedTensorVersioned>,
                  "a DLManagedTensor cannot say that it is only to be read: export a copy, or a versioned capsule");
    detail::require_held(x, {"to_dlpack", "", location});
    return dlpack_capsule<Capsule>(
        detail::export_dlpack<Capsule>(*x->memory(), x->shape(), detail::dlpack_type_of<T>(), false, location));
}

}  // namespace sluice

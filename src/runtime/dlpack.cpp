// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/dlpack.hpp"

#include <array>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "runtime/await_contents.hpp"
#include "runtime/dlpack_layout.hpp"
#include "sluice/base/error.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::detail {
namespace {

using namespace dlpack;

// A capsule is read and written byte by byte: the type of the object is that of another library.
template <typename T>
T read(const void* from) {
    T value;
    std::memcpy(&value, from, sizeof(value));
    return value;
}

std::string type_name(std::uint8_t code, std::uint8_t bits) {
    static constexpr std::array<std::string_view, 7> codes{"int",    "uint",    "float", "handle",
                                                           "bfloat", "complex", "bool"};
    const std::string kind = code < codes.size() ? std::string(codes[code]) : "type " + std::to_string(code) + " of ";
    return kind + std::to_string(bits);
}

std::string place_name(const dl_device& place) {
    const std::string id = " " + std::to_string(place.device_id);
    switch (place.device_type) {
        case device_type::cpu: return "kDLCPU" + id;
        case device_type::cuda: return "kDLCUDA" + id;
        case device_type::cuda_host: return "kDLCUDAHost" + id;
        case device_type::cuda_managed: return "kDLCUDAManaged" + id;
        default: return "device type " + std::to_string(place.device_type) + id;
    }
}

dl_device place_of(const device& on, device_interpreter& with) {
    if (on.kind() != device_kind::cuda) return {device_type::cpu, 0};
    return {device_type::cuda, with.ordinal()};
}

// What a capsule says, checked in the order in which it can be relied on.
class reader {
public:
    reader(device& on, const source_location& location) : on_(on), context_{"from_dlpack", on.name(), location} {}

    void require_capsule(const void* capsule) const {
        if (capsule == nullptr) refuse("the capsule is null");
    }
    void require_version(const dl_version& version) const {
        if (version.major == 1) return;
        refuse("the capsule has version " + std::to_string(version.major) + "." + std::to_string(version.minor) +
                   " of DLPack; version 1 is understood",
               errc::unsupported);
    }
    void require_flags(std::uint64_t flags, bool is_written) const {
        if ((flags & ~std::uint64_t{flag::read_only | flag::is_copied | flag::subbyte_padded}) != 0)
            refuse("the capsule has flags that are not known: " + std::to_string(flags), errc::unsupported);
        if ((flags & flag::read_only) != 0 && is_written)
            refuse("the capsule is only to be read: import it as const, from_dlpack<const T>");
    }
    void require_place(const dl_device& place) const {
        const dl_device ours = place_of(on_, on_.interpreter());
        if (place.device_type == ours.device_type && place.device_id == ours.device_id) return;
        if (place.device_type == device_type::cuda_host && ours.device_type == device_type::cpu) return;
        refuse("the capsule is on " + place_name(place) + "; this device takes " + place_name(ours));
    }
    void require_type(const dl_data_type& has, dlpack_type element) const {
        if (has.lanes != 1) {
            refuse("the capsule has elements of " + std::to_string(has.lanes) + " lanes; elements have one",
                   errc::unsupported);
        }
        if (has.code == element.code && has.bits == element.bits) return;
        refuse("the capsule has elements of type " + type_name(has.code, has.bits) + "; the tensor's are of type " +
               type_name(element.code, element.bits));
    }
    shape shape_of(const dl_tensor& from, std::size_t element_bytes) const {
        if (from.ndim < 0) refuse("the capsule has " + std::to_string(from.ndim) + " dimensions");
        const auto rank = static_cast<std::size_t>(from.ndim);
        if (rank > shape::max_rank) {
            refuse("the capsule has " + std::to_string(rank) + " dimensions; a tensor has at most " +
                       std::to_string(shape::max_rank),
                   errc::shape_mismatch);
        }
        if (rank != 0 && from.shape == nullptr) refuse("the capsule has dimensions and no shape");
        std::array<std::size_t, shape::max_rank> extents{};
        for (std::size_t i = 0; i < rank; ++i) {
            const auto extent = read<std::int64_t>(from.shape + i);
            if (extent < 0) {
                refuse("dimension " + std::to_string(i) + " of the capsule has the length " + std::to_string(extent));
            }
            extents[i] = static_cast<std::size_t>(extent);
        }
        std::size_t bytes = element_bytes;
        for (std::size_t i = 0; i < rank; ++i) {
            if (extents[i] == 0) return shape(std::span<const std::size_t>(extents.data(), rank));
        }
        for (std::size_t i = 0; i < rank; ++i) {
            if (__builtin_mul_overflow(bytes, extents[i], &bytes))
                refuse("the capsule's lengths have a product that no memory holds");
        }
        return shape(std::span<const std::size_t>(extents.data(), rank));
    }
    // Strides of dimensions of length 1 say nothing, and neither do those of a tensor without elements.
    void require_row_major(const dl_tensor& from, const shape& shape) const {
        if (from.strides == nullptr || shape.size() == 0) return;
        std::uint64_t dense = 1;
        for (std::size_t i = shape.rank(); i-- > 0;) {
            const auto stride = read<std::int64_t>(from.strides + i);
            if (shape[i] != 1 && static_cast<std::uint64_t>(stride) != dense) {
                refuse("the capsule of shape " + to_string(shape) + " has stride " + std::to_string(stride) +
                           " in dimension " + std::to_string(i) + "; row-major without gaps it is " +
                           std::to_string(dense) + ": make it contiguous first",
                       errc::unsupported);
            }
            dense *= shape[i];
        }
    }
    const void* data_of(const dl_tensor& from, const shape& shape) const {
        if (shape.size() == 0) return nullptr;
        if (from.data == nullptr) refuse("the capsule of shape " + to_string(shape) + " has no data");
        std::uintptr_t address = 0;
        if (__builtin_add_overflow(reinterpret_cast<std::uintptr_t>(from.data), from.byte_offset, &address))
            refuse("the capsule's byte_offset goes beyond the end of memory: " + std::to_string(from.byte_offset));
        return reinterpret_cast<const void*>(address);
    }
    [[noreturn]] void refuse(const std::string& why, errc code = errc::invalid_argument) const {
        throw error(code, why, context_);
    }

private:
    device& on_;
    const error_context context_;
};

}  // namespace

class dlpack_owner {
public:
    dlpack_owner(void* capsule, void (*free)(void* capsule)) noexcept : capsule_(capsule), free_(free) {}
    dlpack_owner(const dlpack_owner&) = delete;  // it owns the capsule
    dlpack_owner& operator=(const dlpack_owner&) = delete;
    ~dlpack_owner() {
        if (is_consumed_) free_(capsule_);
    }
    void consume() noexcept { is_consumed_ = true; }

private:
    void* const capsule_;
    void (*const free_)(void*);
    bool is_consumed_ = false;
};

void consume(dlpack_owner& owner) noexcept { owner.consume(); }

namespace {

// The producer's deleter takes its own declaration of the structure, which is not ours: only the sanitizer minds.
#if defined(__clang__)
#define SLUICE_CALLS_FOREIGN_CODE __attribute__((no_sanitize("function")))
#else
#define SLUICE_CALLS_FOREIGN_CODE
#endif

template <typename Layout>
SLUICE_CALLS_FOREIGN_CODE void free_capsule(void* capsule) {
    const auto free = read<void (*)(void*)>(static_cast<const char*>(capsule) + offsetof(Layout, deleter));
    if (free != nullptr) free(capsule);
}

dlpack_import import_tensor(device& on, const reader& check, const dl_tensor& from, dlpack_type element,
                            std::shared_ptr<dlpack_owner> owner, const source_location& location) {
    check.require_place(from.device);
    check.require_type(from.dtype, element);
    const std::size_t bytes = element.bits / 8u;
    const shape shape = check.shape_of(from, bytes);
    check.require_row_major(from, shape);
    const void* const data = check.data_of(from, shape);
    dlpack_owner* const made = owner.get();
    return {adopt_bytes(on, data, shape, bytes, bytes, std::move(owner), location), shape, made};
}

}  // namespace

dlpack_import import_dlpack(device& on, DLManagedTensor* capsule, dlpack_type element, bool /*is_written*/,
                            const source_location& location) {
    const reader check(on, location);
    check.require_capsule(capsule);
    auto owner = std::make_shared<dlpack_owner>(capsule, free_capsule<unversioned>);
    return import_tensor(on, check, read<unversioned>(capsule).tensor, element, std::move(owner), location);
}

dlpack_import import_dlpack(device& on, DLManagedTensorVersioned* capsule, dlpack_type element, bool is_written,
                            const source_location& location) {
    const reader check(on, location);
    check.require_capsule(capsule);
    check.require_version(read<dl_version>(capsule));
    const auto all = read<versioned>(capsule);
    check.require_flags(all.flags, is_written);
    auto owner = std::make_shared<dlpack_owner>(capsule, free_capsule<versioned>);
    return import_tensor(on, check, all.tensor, element, std::move(owner), location);
}

// --- export -------------------------------------------------------------------------------------------------

namespace {

// A capsule of ours, with all that it points to.
template <typename Layout>
struct exported {
    Layout capsule{};
    std::array<std::int64_t, shape::max_rank> extents{};
    std::array<std::int64_t, shape::max_rank> strides{};
    storage_ref memory;
};

template <typename Layout>
void delete_exported(Layout* capsule) {
    delete static_cast<exported<Layout>*>(capsule->manager_ctx);
}

template <typename Layout>
Layout* export_tensor(storage& memory, const shape& shape, dlpack_type element, bool is_written,
                      const source_location& location) {
    device& on = memory.owner();
    await_contents(memory, is_written, {"to_dlpack", on.name(), location});
    auto made = std::make_unique<exported<Layout>>();
    std::size_t dense = 1;
    for (std::size_t i = shape.rank(); i-- > 0;) {
        made->extents[i] = static_cast<std::int64_t>(shape[i]);
        made->strides[i] = static_cast<std::int64_t>(dense);
        dense *= shape[i];
    }
    made->memory = storage_ref(&memory);
    Layout& capsule = made->capsule;
    capsule.tensor = {memory.data(),
                      place_of(on, on.interpreter()),
                      static_cast<std::int32_t>(shape.rank()),
                      {element.code, element.bits, 1},
                      made->extents.data(),
                      made->strides.data(),
                      0};
    capsule.manager_ctx = made.get();
    capsule.deleter = delete_exported<Layout>;
    return &made.release()->capsule;
}

}  // namespace

template <>
DLManagedTensor* export_dlpack(storage& memory, const shape& shape, dlpack_type element, bool is_written,
                               const source_location& location) {
    return reinterpret_cast<DLManagedTensor*>(export_tensor<unversioned>(memory, shape, element, is_written, location));
}

template <>
DLManagedTensorVersioned* export_dlpack(storage& memory, const shape& shape, dlpack_type element, bool is_written,
                                        const source_location& location) {
    versioned* const made = export_tensor<versioned>(memory, shape, element, is_written, location);
    made->version = {1, 0};
    made->flags = is_written ? 0u : std::uint64_t{flag::read_only};
    return reinterpret_cast<DLManagedTensorVersioned*>(made);
}

void dlpack_deleter::operator()(DLManagedTensor* capsule) const noexcept { free_capsule<unversioned>(capsule); }
void dlpack_deleter::operator()(DLManagedTensorVersioned* capsule) const noexcept { free_capsule<versioned>(capsule); }

}  // namespace sluice::detail

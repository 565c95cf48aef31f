// SPDX-License-Identifier: Apache-2.0
#include "dlpack.hpp"

#include <cstring>
#include <memory>
#include <vector>

namespace sluice::python {
namespace dlpack {
namespace {

struct pair {
    sluice_type type;
    std::uint8_t code, bits;
};
constexpr pair pairs[] = {{SLUICE_F16, 2, 16}, {SLUICE_BF16, 4, 16}, {SLUICE_F32, 2, 32}, {SLUICE_F64, 2, 64},
                          {SLUICE_I8, 0, 8},   {SLUICE_U8, 1, 8},    {SLUICE_I16, 0, 16}, {SLUICE_U16, 1, 16},
                          {SLUICE_I32, 0, 32}, {SLUICE_U32, 1, 32},  {SLUICE_I64, 0, 64}, {SLUICE_U64, 1, 64},
                          {SLUICE_BOOL, 6, 8}};

}  // namespace

sluice_type type_from(data_type type) noexcept {
    if (type.lanes != 1) return 0;
    for (const pair& each : pairs)
        if (each.code == type.code && each.bits == type.bits) return each.type;
    return 0;
}

data_type type_of(sluice_type type) noexcept {
    for (const pair& each : pairs)
        if (each.type == type) return {each.code, each.bits, 1};
    return {0, 0, 0};
}

}  // namespace dlpack

namespace {

using namespace dlpack;

constexpr const char* unversioned_name = "dltensor";
constexpr const char* versioned_name = "dltensor_versioned";

// Row-major without gaps. Strides of dimensions of length 1 say nothing, nor do those of a tensor without elements.
bool is_row_major(const dlpack::tensor& it) {
    if (it.strides == nullptr) return true;
    for (std::int32_t i = 0; i < it.ndim; ++i)
        if (it.shape[i] == 0) return true;
    std::uint64_t dense = 1;
    for (std::int32_t i = it.ndim; i-- > 0;) {
        if (it.shape[i] != 1 && static_cast<std::uint64_t>(it.strides[i]) != dense) return false;
        dense *= static_cast<std::uint64_t>(it.shape[i]);
    }
    return true;
}

// Asks for version 1 of the structure; objects from before it do not know the argument.
nb::object capsule_from(nb::handle from, void* stream) {
    nb::dict options;
    if (stream != nullptr) options["stream"] = reinterpret_cast<std::uintptr_t>(stream);
    options["max_version"] = nb::make_tuple(1, 0);
    const nb::object method = from.attr("__dlpack__");
    try {
        return method(**options);
    } catch (nb::python_error& refused) {
        if (!refused.matches(PyExc_TypeError)) throw;
    }
    nb::del(options["max_version"]);
    return method(**options);
}

const dlpack::tensor* inside(PyObject* capsule, const std::string& label) {
    if (PyCapsule_IsValid(capsule, versioned_name)) {
        const auto* const all = static_cast<managed_tensor_versioned*>(PyCapsule_GetPointer(capsule, versioned_name));
        if (all->major == 1) return &all->tensor;
        raise(PyExc_BufferError, label + " has version " + std::to_string(all->major) + " of DLPack; 1 is understood");
    }
    if (PyCapsule_IsValid(capsule, unversioned_name))
        return &static_cast<managed_tensor*>(PyCapsule_GetPointer(capsule, unversioned_name))->tensor;
    raise(PyExc_TypeError, label + ": __dlpack__ gave no capsule of DLPack");
}

}  // namespace

dlpack::device lent_tensor::place_of(nb::handle from) {
    const nb::object place = from.attr("__dlpack_device__")();
    return {nb::cast<std::int32_t>(nb::int_(place[0])), nb::cast<std::int32_t>(nb::int_(place[1]))};
}

lent_tensor::lent_tensor(nb::handle from, void* stream, const std::string& label)
    : capsule_(capsule_from(from, stream)) {
    const dlpack::tensor& it = *inside(capsule_.ptr(), label);
    const sluice_type type = type_from(it.dtype);
    if (type == 0) {
        raise(PyExc_TypeError, label + " has elements of DLPack's type " + std::to_string(it.dtype.code) + " with " +
                                   std::to_string(it.dtype.bits) + " bits, which networks do not have");
    }
    if (it.ndim < 0 || (it.ndim > 0 && it.shape == nullptr)) raise(PyExc_ValueError, label + " has no valid shape");
    if (!is_row_major(it)) {
        raise(PyExc_ValueError, label + " is not row-major without gaps: make it contiguous first");
    }
    const char* const data = static_cast<const char*>(it.data) + it.byte_offset;
    const bool is_cuda = it.device.type == dlpack::cuda;
    tensor_ = {data, it.shape, static_cast<std::size_t>(it.ndim), type, is_cuda ? SLUICE_DEVICE : SLUICE_HOST};
}

namespace {

// A capsule of ours with what it points to.
template <typename Managed>
struct given {
    Managed managed{};
    std::vector<std::int64_t> shape, strides;
    void* owner = nullptr;
    void (*owned)(void*) = nullptr;

    ~given() {
        if (owned != nullptr) owned(owner);
    }
};

template <typename Managed>
nb::object capsule_of(const sluice_buffer& from, dlpack::device place, const char* name, void* owner,
                      void (*owned)(void*)) {
    auto made = std::make_unique<given<Managed>>();
    made->shape.assign(from.shape, from.shape + from.rank);
    made->strides.resize(from.rank);
    std::int64_t dense = 1;
    for (std::size_t i = from.rank; i-- > 0; dense *= made->shape[i]) made->strides[i] = dense;
    Managed& it = made->managed;
    it.tensor = {from.data,
                 place,
                 static_cast<std::int32_t>(from.rank),
                 type_of(from.type),
                 made->shape.data(),
                 made->strides.data(),
                 0};
    it.manager_ctx = made.get();
    // The receiver may call it on any thread, without the GIL.
    it.deleter = [](Managed* self) { delete static_cast<given<Managed>*>(self->manager_ctx); };
    // A capsule that is not consumed frees its tensor itself.
    PyObject* const capsule = PyCapsule_New(&it, name, [](PyObject* self) {
        const char* const now = PyCapsule_GetName(self);
        if (now == nullptr || std::strncmp(now, "used_", 5) == 0) return;
        auto* const left = static_cast<Managed*>(PyCapsule_GetPointer(self, now));
        if (left != nullptr && left->deleter != nullptr) left->deleter(left);
    });
    if (capsule == nullptr) throw nb::python_error();
    made->owner = owner;  // from here on the capsule has it
    made->owned = owned;
    static_cast<void>(made.release());
    return nb::steal(capsule);
}

}  // namespace

nb::object give_tensor(const sluice_buffer& tensor, dlpack::device place, bool versioned, void* owner,
                       void (*owned)(void*)) {
    if (!versioned) return capsule_of<managed_tensor>(tensor, place, unversioned_name, owner, owned);
    nb::object made = capsule_of<managed_tensor_versioned>(tensor, place, versioned_name, owner, owned);
    static_cast<managed_tensor_versioned*>(PyCapsule_GetPointer(made.ptr(), versioned_name))->major = 1;
    return made;
}

}  // namespace sluice::python

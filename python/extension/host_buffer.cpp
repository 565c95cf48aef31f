// SPDX-License-Identifier: Apache-2.0
#include "host_buffer.hpp"

namespace sluice::python {
namespace {

// The letter of the buffer protocol; null for bfloat16, which has none.
const char* format_of(sluice_type type) noexcept {
    static constexpr const char* letters[] = {nullptr, "e", nullptr, "f", "d", "b", "B",
                                              "h",     "H", "i",     "I", "q", "Q", "?"};
    return letters[type];
}

}  // namespace

host_buffer::host_buffer(const sluice_buffer& memory, bool is_readonly)
    : memory_(memory), strides_(memory.rank), is_readonly_(is_readonly) {
    bytes_ = static_cast<Py_ssize_t>(sluice_type_size(memory_.type));
    for (std::size_t i = memory_.rank; i-- > 0; bytes_ *= static_cast<Py_ssize_t>(memory_.shape[i]))
        strides_[i] = bytes_;
}

int host_buffer::show(PyObject* self, Py_buffer* to, int flags) {
    const char* const format = format_of(memory_.type);
    to->obj = nullptr;  // as the protocol says of failures
    if (format == nullptr) {
        PyErr_SetString(PyExc_BufferError,
                        "elements of bfloat16 have no format of the buffer protocol: use __dlpack__");
        return -1;
    }
    if (is_readonly_ && (flags & PyBUF_WRITABLE) != 0) {
        PyErr_SetString(PyExc_BufferError, "the memory is read-only");
        return -1;
    }
    if (memory_.rank > 1 && (flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS) {
        PyErr_SetString(PyExc_BufferError, "the memory is row-major, and column-major is requested");
        return -1;
    }
    // The shape is an array of int64_t, which Py_ssize_t is; the protocol does not write it.
    auto* const lengths = reinterpret_cast<Py_ssize_t*>(const_cast<std::int64_t*>(memory_.shape));
    *to = {};
    to->buf = memory_.data;
    to->len = bytes_;
    to->itemsize = static_cast<Py_ssize_t>(sluice_type_size(memory_.type));
    to->ndim = static_cast<int>(memory_.rank);
    to->readonly = is_readonly_ ? 1 : 0;
    to->format = (flags & PyBUF_FORMAT) != 0 ? const_cast<char*>(format) : nullptr;
    to->shape = (flags & PyBUF_ND) != 0 ? lengths : nullptr;
    to->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? strides_.data() : nullptr;
    to->obj = self;
    Py_INCREF(self);
    return 0;
}

}  // namespace sluice::python

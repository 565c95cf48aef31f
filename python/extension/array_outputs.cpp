// SPDX-License-Identifier: Apache-2.0
#include "array_outputs.hpp"

#include <nanobind/stl/optional.h>

#include <atomic>
#include <cstring>

#include "dlpack.hpp"

namespace sluice::python {
namespace {

// Below this a new array and a copy take less time than an array around foreign memory, which NumPy makes in about
// a microsecond.
constexpr std::size_t copied_bytes = std::size_t{16} << 10;

// sluice.Tensor: an output in the memory of its result.
class tensor {
public:
    tensor(result_ptr owner, std::size_t index) : owner_(std::move(owner)) {
        check(sluice_result_output(owner_.get(), index, &memory_));
        strides_.resize(memory_.rank);
        auto bytes = static_cast<Py_ssize_t>(sluice_type_size(memory_.type));
        for (std::size_t i = memory_.rank; i-- > 0; bytes *= static_cast<Py_ssize_t>(memory_.shape[i]))
            strides_[i] = bytes;
        bytes_ = bytes;
    }

    nb::object shape() const;
    const char* dtype() const noexcept { return dtype_name(memory_.type); }
    nb::object dlpack(bool is_versioned) const {
        auto keeper = std::make_unique<result_ptr>(owner_);
        nb::object made =
            give_tensor(memory_, is_versioned, keeper.get(), [](void* held) { delete static_cast<result_ptr*>(held); });
        static_cast<void>(keeper.release());
        return made;
    }
    // For the buffer protocol. Sets Python's error and returns -1 when it cannot.
    int show(PyObject* self, Py_buffer* to, int flags);

private:
    result_ptr owner_;
    sluice_buffer memory_{};
    std::vector<Py_ssize_t> strides_;  // in bytes
    Py_ssize_t bytes_ = 0;
};

// The letter of the buffer protocol; null for bfloat16, which has none.
const char* format_of(sluice_type type) noexcept {
    static constexpr const char* letters[] = {nullptr, "e", nullptr, "f", "d", "b", "B",
                                              "h",     "H", "i",     "I", "q", "Q", "?"};
    return letters[type];
}

nb::object shape_tuple(const std::int64_t* lengths, std::size_t rank) {
    nb::object made = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(rank)));
    if (!made.is_valid()) throw nb::python_error();
    for (std::size_t i = 0; i < rank; ++i)
        PyTuple_SetItem(made.ptr(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(lengths[i]));
    return made;
}

nb::object tensor::shape() const { return shape_tuple(memory_.shape, memory_.rank); }

int tensor::show(PyObject* self, Py_buffer* to, int flags) {
    const char* const format = format_of(memory_.type);
    if (format == nullptr) {
        PyErr_SetString(PyExc_BufferError,
                        "elements of bfloat16 have no format of the buffer protocol: use __dlpack__");
        return -1;
    }
    // The shape is an array of int64_t, which Py_ssize_t is; the protocol does not write it.
    auto* const lengths = reinterpret_cast<Py_ssize_t*>(const_cast<std::int64_t*>(memory_.shape));
    *to = {};
    to->buf = memory_.data;
    to->len = bytes_;
    to->itemsize = static_cast<Py_ssize_t>(sluice_type_size(memory_.type));
    to->ndim = static_cast<int>(memory_.rank);
    to->format = (flags & PyBUF_FORMAT) != 0 ? const_cast<char*>(format) : nullptr;
    to->shape = (flags & PyBUF_ND) != 0 ? lengths : nullptr;
    to->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? strides_.data() : nullptr;
    to->obj = self;
    Py_INCREF(self);
    return 0;
}

// A new array with a copy of the elements.
nb::object copy_of(const sluice_buffer& from, std::size_t bytes) {
    const nb::object shape = shape_tuple(from.shape, from.rank);
    PyObject* const arguments[] = {shape.ptr(), numpy().types[static_cast<std::size_t>(from.type)].ptr()};
    nb::object made = nb::steal(PyObject_Vectorcall(numpy().empty.ptr(), arguments, 2, nullptr));
    Py_buffer view;
    if (!made.is_valid() || PyObject_GetBuffer(made.ptr(), &view, PyBUF_WRITABLE) != 0) throw nb::python_error();
    if (bytes != 0) std::memcpy(view.buf, from.data, bytes);
    PyBuffer_Release(&view);
    return made;
}

nb::object array_of(const result_ptr& result, std::size_t index) {
    sluice_buffer output{};
    check(sluice_result_output(result.get(), index, &output));
    if (output.type == SLUICE_BF16) return nb::cast(new tensor(result, index), nb::rv_policy::take_ownership);
    std::size_t bytes = sluice_type_size(output.type);
    for (std::size_t i = 0; i < output.rank; ++i) bytes *= static_cast<std::size_t>(output.shape[i]);
    if (bytes <= copied_bytes) return copy_of(output, bytes);
    return numpy().asarray(nb::cast(new tensor(result, index), nb::rv_policy::take_ownership));
}

const numpy_names* find_numpy() {
    auto made = std::make_unique<numpy_names>();
    const nb::module_ found = nb::module_::import_("numpy");
    made->empty = found.attr("empty");
    made->asarray = found.attr("asarray");
    made->ascontiguousarray = found.attr("ascontiguousarray");
    for (sluice_type each = SLUICE_F16; each <= SLUICE_BOOL; ++each) {
        if (each != SLUICE_BF16) made->types[static_cast<std::size_t>(each)] = found.attr("dtype")(dtype_name(each));
    }
    return made.release();
}

PyType_Slot tensor_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(+[](PyObject* self, Py_buffer* to, int flags) {
                                   return nb::inst_ptr<tensor>(self)->show(self, to, flags);
                               })},
                              {0, nullptr}};

}  // namespace

const numpy_names& numpy() {
    static std::atomic<const numpy_names*> found{nullptr};  // for the process's life
    const numpy_names* now = found.load(std::memory_order_acquire);
    if (now == nullptr) {
        const numpy_names* const made = find_numpy();  // two threads may come here: then one is left over
        now = found.compare_exchange_strong(now, made, std::memory_order_acq_rel) ? made : now;
    }
    return *now;
}

const char* dtype_name(sluice_type type) noexcept {
    static constexpr const char* names[] = {"",      "float16", "bfloat16", "float32", "float64", "int8",   "uint8",
                                            "int16", "uint16",  "int32",    "uint32",  "int64",   "uint64", "bool"};
    return names[type];
}

result_ptr owned(sluice_result* result) { return result_ptr(result, sluice_result_destroy); }

nb::object arrays_of(const network& what, const result_ptr& result) {
    const std::vector<named_value>& all = what.outputs();
    if (all.size() == 1) return array_of(result, 0);
    nb::dict made;
    for (std::size_t i = 0; i < all.size(); ++i) made[all[i].name] = array_of(result, i);
    return made;
}

void bind_tensor(nb::module_& in) {
    nb::class_<tensor>(in, "Tensor", nb::type_slots(tensor_slots),
                       "An output of a type that NumPy does not have: for torch.from_dlpack and the like.")
        .def_prop_ro("shape", &tensor::shape)
        .def_prop_ro("dtype", &tensor::dtype)
        .def(
            "__dlpack__",
            [](const tensor& self, nb::object stream, nb::object max_version, nb::object dl_device, nb::object copy) {
                if (!stream.is_none()) raise(PyExc_BufferError, "a stream is given, and the memory is the host's");
                const nb::object here = nb::make_tuple(static_cast<int>(dlpack::cpu), 0);
                if (!dl_device.is_none() && !dl_device.equal(here))
                    raise(PyExc_BufferError, "the memory is the host's, and another device is requested");
                if (!copy.is_none() && nb::cast<bool>(copy))
                    raise(PyExc_BufferError, "a copy is requested; this gives the memory itself");
                const bool is_versioned = !max_version.is_none() && nb::cast<int>(max_version[0]) >= 1;
                return self.dlpack(is_versioned);
            },
            nb::kw_only(), nb::arg("stream") = nb::none(), nb::arg("max_version") = nb::none(),
            nb::arg("dl_device") = nb::none(), nb::arg("copy") = nb::none())
        .def("__dlpack_device__", [](const tensor&) { return nb::make_tuple(static_cast<int>(dlpack::cpu), 0); })
        .def("__repr__", [](const tensor& self) {
            return std::string("<sluice.Tensor ") + self.dtype() + " " + nb::cast<std::string>(nb::str(self.shape())) +
                   ">";
        });
}

}  // namespace sluice::python

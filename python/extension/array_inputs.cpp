// SPDX-License-Identifier: Apache-2.0
#include "array_inputs.hpp"

#include <cstring>

#include "arguments.hpp"
#include "array_outputs.hpp"

namespace sluice::python {
namespace {

std::string type_name(PyObject* object) {
    return nb::cast<std::string>(nb::str(nb::handle(object).type().attr("__name__")));
}

// NumPy has no bfloat16 of its own: arrays of the package ml_dtypes, as JAX gives them.
bool is_bfloat16(PyObject* array) {
    const nb::object type = nb::getattr(nb::handle(array), "dtype", nb::none());
    return !type.is_none() && nb::cast<std::string>(nb::str(type)) == "bfloat16";
}

// By the module of its type: the name of a type is not in Python's stable interface.
bool is_of_numpy(PyObject* array) {
    const nb::object module = nb::getattr(nb::handle(array).type(), "__module__", nb::none());
    return PyUnicode_Check(module.ptr()) && PyUnicode_CompareWithASCIIString(module.ptr(), "numpy") == 0;
}

// Arrays of CuPy have the buffer protocol too, which then refuses. Those of NumPy are not searched for an attribute
// that they do not have: a search that fails costs more.
bool is_on_gpu(PyObject* array) {
    return !is_of_numpy(array) && PyObject_HasAttrString(array, "__cuda_array_interface__") != 0;
}

bool has_host_buffer(PyObject* array) {
    return PyObject_CheckBuffer(array) != 0 && !is_tensor(array) && !is_on_gpu(array);
}

}  // namespace

sluice_type type_from_format(const char* format, Py_ssize_t bytes) noexcept {
    if (format == nullptr) return bytes == 1 ? SLUICE_U8 : 0;
    if (std::strchr("@=<", format[0]) != nullptr) ++format;
    if (format[0] == 0 || format[1] != 0) return 0;
    switch (format[0]) {
        case 'e': return bytes == 2 ? SLUICE_F16 : 0;
        case 'f': return bytes == 4 ? SLUICE_F32 : 0;
        case 'd': return bytes == 8 ? SLUICE_F64 : 0;
        case '?': return bytes == 1 ? SLUICE_BOOL : 0;
        default: break;
    }
    const bool is_signed = std::strchr("bhilqn", format[0]) != nullptr;
    if (!is_signed && std::strchr("BHILQN", format[0]) == nullptr) return 0;
    switch (bytes) {
        case 1: return is_signed ? SLUICE_I8 : SLUICE_U8;
        case 2: return is_signed ? SLUICE_I16 : SLUICE_U16;
        case 4: return is_signed ? SLUICE_I32 : SLUICE_U32;
        case 8: return is_signed ? SLUICE_I64 : SLUICE_U64;
        default: return 0;
    }
}

// False, with Python's error set, where the object has no row-major memory to show.
bool array_input::take_view(PyObject* from) {
    return PyObject_GetBuffer(from, &view_, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) == 0;
}

void array_input::take_buffer(PyObject* given, const std::string& label) {
    bool is_bf16 = false;
    if (!take_view(given)) {
        PyErr_Clear();
        copy_ = numpy().asarray(nb::handle(given), nb::arg("order") = "C");
        is_bf16 = is_bfloat16(copy_.ptr());
        if (is_bf16) copy_ = copy_.attr("view")("uint16");
        if (!take_view(copy_.ptr())) throw nb::python_error();
    }
    const sluice_type type = is_bf16 ? SLUICE_BF16 : type_from_format(view_.format, view_.itemsize);
    if (type == 0) {
        raise(PyExc_TypeError,
              label + " has elements of the format '" + std::string(view_.format) + "', which networks do not have");
    }
    static_assert(sizeof(Py_ssize_t) == sizeof(std::int64_t));
    tensor_ = {view_.buf, reinterpret_cast<const std::int64_t*>(view_.shape), static_cast<std::size_t>(view_.ndim),
               type, SLUICE_HOST};
}

// Texts become codes: an array of str, or what NumPy makes one of.
void array_input::take_texts(const network& what, std::size_t index, PyObject* given) {
    const std::string& label = what.inputs()[index].label;
    const nb::object array = numpy().asarray(nb::handle(given), nb::arg("dtype") = "object");
    const nb::object codes = array.attr("ravel")().attr("tolist")();
    const Py_ssize_t count = PyList_Size(codes.ptr());
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject* const text = PyList_GetItem(codes.ptr(), i);
        if (PyUnicode_Check(text) == 0) {
            raise(PyExc_TypeError, label + " takes texts (str), and is given an element that is " + type_name(text) +
                                       (nb::isinstance<nb::bytes>(text) ? ": decode it, a.astype(str)" : ""));
        }
        Py_ssize_t length = 0;
        const char* const bytes = PyUnicode_AsUTF8AndSize(text, &length);
        if (bytes == nullptr) throw nb::python_error();
        std::int64_t code = 0;
        check(sluice_network_text_code(what.handle(), bytes, static_cast<std::size_t>(length), &code));
        PyObject* const number = PyLong_FromLongLong(code);
        if (number == nullptr || PyList_SetItem(codes.ptr(), i, number) != 0) throw nb::python_error();
    }
    const nb::object flat = numpy().asarray(codes, nb::arg("dtype") = numpy().types[SLUICE_I64]);
    take_buffer(flat.attr("reshape")(array.attr("shape")).ptr(), label);
}

void array_input::take_dlpack(const network& what, PyObject* given, const std::string& label) {
    const dlpack::device place = lent_tensor::place_of(given);
    void* stream = nullptr;
    if (place.type == dlpack::cuda) {
        const std::string there = "cuda:" + std::to_string(place.id);
        if (there != what.device()) {
            raise(PyExc_ValueError, label + " is on " + there + ", and the network is on " + what.device() +
                                        ": bring the array to that device, or to the host");
        }
        check(sluice_network_cuda_stream(what.handle(), &stream));
    } else if (place.type != dlpack::cpu && place.type != dlpack::cuda_host) {
        raise(PyExc_ValueError, label + " is on a device of DLPack's type " + std::to_string(place.type) +
                                    ": bring the array to the host");
    }
    lent_ = lent_tensor(given, stream, label);
    tensor_ = lent_.tensor();
}

// False for an object without the interface. Throws what the object throws.
bool array_input::take_cuda_array(const network& what, PyObject* given, const std::string& label) {
    const nb::object shown = nb::steal(PyObject_GetAttrString(given, "__cuda_array_interface__"));
    if (!shown.is_valid()) {
        if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0) throw nb::python_error();
        PyErr_Clear();
        return false;
    }
    shown_ = cuda_array(nb::borrow(given), shown, label);
    tensor_ = shown_.tensor();
    if (std::strncmp(what.device(), "cuda", 4) != 0) {
        raise(PyExc_ValueError,
              label + " is in the memory of a GPU (__cuda_array_interface__), and the network is on " + what.device() +
                  ": bring the array to the host, or load the network with device=\"cuda:0\"; where "
                  "there is no GPU, sluice.default_runtime().why_no_gpu says why");
    }
    if (!shown_.producer().waits) return true;
    sluice_status status = SLUICE_OK;
    {
        const nb::gil_scoped_release without_gil;
        status = sluice_network_wait_for_stream(what.handle(), shown_.producer().handle);
    }
    check(status);
    return true;
}

void array_input::take(const network& what, std::size_t index, PyObject* given) {
    const std::string& label = what.inputs()[index].label;
    if (what.inputs()[index].is_text) return take_texts(what, index, given);
    if (has_host_buffer(given)) return take_buffer(given, label);
    if (PyObject_HasAttrString(given, "__dlpack__")) return take_dlpack(what, given, label);
    if (take_cuda_array(what, given, label)) return;
    raise(PyExc_TypeError, label +
                               " takes a NumPy array or an object with __dlpack__ or __cuda_array_interface__, and "
                               "is given " +
                               type_name(given));
}

void array_input::take_host(PyObject* given, const std::string& label) {
    if (has_host_buffer(given)) return take_buffer(given, label);
    if (PyObject_HasAttrString(given, "__dlpack__")) {
        const std::int32_t place = lent_tensor::place_of(given).type;
        if (place != dlpack::cpu && place != dlpack::cuda_host)
            raise(PyExc_ValueError, label + " is on a device: bring the array to the host");
        lent_ = lent_tensor(given, nullptr, label);
        tensor_ = lent_.tensor();
        return;
    }
    raise(PyExc_TypeError, label + " is a NumPy array or an object with __dlpack__, and is given " + type_name(given));
}

array_inputs::array_inputs(const network& what, PyObject* args, PyObject* kwargs) : arrays(what.inputs().size()) {
    const std::vector<PyObject*> given = arguments_of(what, args, kwargs);
    tensors.reserve(given.size());
    for (std::size_t i = 0; i < given.size(); ++i) {
        arrays[i].take(what, i, given[i]);
        tensors.push_back(arrays[i].tensor());
    }
}

}  // namespace sluice::python

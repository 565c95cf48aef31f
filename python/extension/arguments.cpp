// SPDX-License-Identifier: Apache-2.0
#include "arguments.hpp"

#include <algorithm>

namespace sluice::python {
namespace {

std::string text_of(PyObject* object) { return nb::cast<std::string>(nb::str(nb::handle(object))); }

std::string names_of(const network& what, const std::vector<std::size_t>& which) {
    std::string names;
    for (const std::size_t each : which) names += (names.empty() ? "" : ", ") + text_of(what.inputs()[each].name.ptr());
    return names;
}

[[noreturn]] void refuse(const network& what, const std::vector<std::size_t>& which, const std::string& why) {
    const std::string taker = which.size() == what.inputs().size() ? "the network" : "a step";
    raise(PyExc_TypeError, taker + " takes the inputs " + names_of(what, which) + ", and " + why);
}

std::size_t input_named(const network& what, const std::vector<std::size_t>& which, PyObject* name) {
    const std::vector<named_value>& all = what.inputs();
    for (std::size_t i = 0; i < which.size(); ++i)
        if (all[which[i]].name.ptr() == name) return i;  // a name in the source of a program is interned
    for (std::size_t i = 0; i < which.size(); ++i)
        if (PyUnicode_Compare(all[which[i]].name.ptr(), name) == 0) return i;
    refuse(what, which, "there is none named '" + text_of(name) + "'");
}

}  // namespace

std::vector<PyObject*> arguments_of(const network& what, PyObject* args, PyObject* kwargs) {
    std::vector<std::size_t> all(what.inputs().size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    return arguments_of(what, all, args, kwargs);
}

std::vector<PyObject*> arguments_of(const network& what, const std::vector<std::size_t>& which, PyObject* args,
                                    PyObject* kwargs) {
    const std::size_t count = which.size();
    const auto by_position = static_cast<std::size_t>(PyTuple_Size(args));
    if (by_position > count) refuse(what, which, "is given " + std::to_string(by_position));
    std::vector<PyObject*> found(count, nullptr);
    for (std::size_t i = 0; i < by_position; ++i) found[i] = PyTuple_GetItem(args, static_cast<Py_ssize_t>(i));
    if (kwargs != nullptr) {
        PyObject *name = nullptr, *value = nullptr;
        for (Py_ssize_t at = 0; PyDict_Next(kwargs, &at, &name, &value);) {
            PyObject*& place = found[input_named(what, which, name)];
            if (place != nullptr) refuse(what, which, "'" + text_of(name) + "' is given twice");
            place = value;
        }
    }
    const auto missing = std::find(found.begin(), found.end(), nullptr);
    if (missing != found.end()) {
        const auto at = static_cast<std::size_t>(missing - found.begin());
        refuse(what, which, "'" + text_of(what.inputs()[which[at]].name.ptr()) + "' is missing");
    }
    return found;
}

// The lengths of a shape; `label` is for messages.
std::vector<std::int64_t> lengths_in(nb::handle shape, const std::string& label) {
    std::vector<std::int64_t> lengths;
    if (nb::isinstance<nb::tuple>(shape) || nb::isinstance<nb::list>(shape)) {
        for (nb::handle each : shape) {
            const Py_ssize_t length = PyNumber_AsSsize_t(each.ptr(), PyExc_OverflowError);
            if (length == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
            lengths.push_back(length);
        }
        return lengths;
    }
    raise(PyExc_TypeError, "the shape of " + label + " is a tuple of lengths, such as (8, 64), and is given " +
                               nb::cast<std::string>(nb::str(shape.type().attr("__name__"))));
}

std::int64_t integer_in(nb::handle number) {
    const long long made = PyLong_AsLongLong(number.ptr());
    if (made == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
    return made;
}

}  // namespace sluice::python

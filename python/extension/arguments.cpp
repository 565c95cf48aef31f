// SPDX-License-Identifier: Apache-2.0
#include "arguments.hpp"

#include <algorithm>

namespace sluice::python {
namespace {

std::string text_of(PyObject* object) { return nb::cast<std::string>(nb::str(nb::handle(object))); }

std::string names_of(const network& what) {
    std::string names;
    for (const named_value& each : what.inputs()) names += (names.empty() ? "" : ", ") + text_of(each.name.ptr());
    return names;
}

[[noreturn]] void refuse(const network& what, const std::string& why) {
    raise(PyExc_TypeError, "the network takes the inputs " + names_of(what) + ", and " + why);
}

std::size_t input_named(const network& what, PyObject* name) {
    const std::vector<named_value>& all = what.inputs();
    for (std::size_t i = 0; i < all.size(); ++i)
        if (all[i].name.ptr() == name) return i;  // a name in the source of a program is interned
    for (std::size_t i = 0; i < all.size(); ++i)
        if (PyUnicode_Compare(all[i].name.ptr(), name) == 0) return i;
    refuse(what, "there is none named '" + text_of(name) + "'");
}

}  // namespace

std::vector<PyObject*> arguments_of(const network& what, PyObject* args, PyObject* kwargs) {
    const std::size_t count = what.inputs().size();
    const auto by_position = static_cast<std::size_t>(PyTuple_Size(args));
    if (by_position > count) refuse(what, "is given " + std::to_string(by_position));
    std::vector<PyObject*> found(count, nullptr);
    for (std::size_t i = 0; i < by_position; ++i) found[i] = PyTuple_GetItem(args, static_cast<Py_ssize_t>(i));
    if (kwargs != nullptr) {
        PyObject *name = nullptr, *value = nullptr;
        for (Py_ssize_t at = 0; PyDict_Next(kwargs, &at, &name, &value);) {
            PyObject*& place = found[input_named(what, name)];
            if (place != nullptr) refuse(what, "'" + text_of(name) + "' is given twice");
            place = value;
        }
    }
    const auto missing = std::find(found.begin(), found.end(), nullptr);
    if (missing != found.end()) {
        const auto at = static_cast<std::size_t>(missing - found.begin());
        refuse(what, "'" + text_of(what.inputs()[at].name.ptr()) + "' is missing");
    }
    return found;
}

}  // namespace sluice::python

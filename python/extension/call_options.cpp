// SPDX-License-Identifier: Apache-2.0
#include "call_options.hpp"

#include <algorithm>

#include "array_inputs.hpp"

namespace sluice::python {
namespace {

bool has_input(const network& what, const char* name) {
    return std::ranges::any_of(what.inputs(), [&](const named_value& each) {
        return PyUnicode_CompareWithASCIIString(each.name.ptr(), name) == 0;
    });
}

std::string names_of_outputs(const network& what) {
    std::string names;
    for (const named_value& each : what.outputs())
        names += (names.empty() ? "" : ", ") + nb::cast<std::string>(each.name);
    return names;
}

std::size_t output_named(const network& what, nb::handle name) {
    for (std::size_t i = 0; i < what.outputs().size(); ++i)
        if (what.outputs()[i].name.equal(name)) return i;
    raise(PyExc_ValueError, "the network has the outputs " + names_of_outputs(what) + ", and none named '" +
                                nb::cast<std::string>(nb::str(name)) + "'");
}

}  // namespace

call_options::call_options(const network& what, PyObject* kwargs) : given_(kwargs) {
    if (kwargs == nullptr || PyDict_Size(kwargs) == 0) return;
    out_ = take(what, "out");
    const nb::object outputs = take(what, "outputs");
    if (outputs.is_valid()) choose(what, outputs);
    if (out_.is_valid() && has_choice_) raise(PyExc_TypeError, "out takes all outputs: give out or outputs, not both");
}

// Takes an argument out; null where there is none, or None.
nb::object call_options::take(const network& what, const char* name) {
    PyObject* const found = PyDict_GetItemString(left(), name);
    if (found == nullptr || has_input(what, name)) return {};
    nb::object taken = nb::borrow(found);
    if (!left_.is_valid()) left_ = nb::borrow(given_).attr("copy")();
    if (PyDict_DelItemString(left_.ptr(), name) != 0) throw nb::python_error();
    return taken.is_none() ? nb::object() : taken;
}

void call_options::choose(const network& what, nb::handle names) {
    has_choice_ = true;
    is_one_ = nb::isinstance<nb::str>(names);
    if (is_one_) {
        choice_.push_back(output_named(what, names));
        return;
    }
    for (nb::handle each : nb::iter(names)) choice_.push_back(output_named(what, each));
}

room_for_outputs::room_for_outputs(const network& what, nb::handle out) {
    const std::size_t count = what.outputs().size();
    views_.reserve(count);
    buffers_.reserve(count);
    try {
        if (nb::isinstance<nb::dict>(out)) {
            const nb::dict by_name = nb::borrow<nb::dict>(out);
            for (auto [name, array] : by_name) output_named(what, name);
            for (const named_value& each : what.outputs()) {
                if (!by_name.contains(each.name)) raise(PyExc_TypeError, "out has no array for the " + each.label);
                add(what, by_name[each.name]);
            }
        } else if (nb::isinstance<nb::tuple>(out) || nb::isinstance<nb::list>(out)) {
            for (nb::handle each : nb::iter(out)) add(what, each);
        } else {
            add(what, out);
        }
        if (buffers_.size() != count) {
            raise(PyExc_TypeError, "the network has the outputs " + names_of_outputs(what) + ", and out has " +
                                       std::to_string(buffers_.size()) + " arrays");
        }
    } catch (...) {
        for (Py_buffer& each : views_) PyBuffer_Release(&each);
        throw;
    }
}

room_for_outputs::~room_for_outputs() {
    for (Py_buffer& each : views_) PyBuffer_Release(&each);
}

void room_for_outputs::add(const network& what, nb::handle array) {
    if (buffers_.size() == what.outputs().size()) {
        raise(PyExc_TypeError, "the network has the outputs " + names_of_outputs(what) + ", and out has more arrays");
    }
    const std::string& label = what.outputs()[buffers_.size()].label;
    if (what.outputs()[buffers_.size()].is_text)
        raise(PyExc_ValueError, label + " is text, which is not written in place: call net(...) without out");
    if (PyObject_CheckBuffer(array.ptr()) == 0) raise(PyExc_TypeError, "out for the " + label + " is a NumPy array");
    // In its place at once: some views point into themselves.
    Py_buffer& view = views_.emplace_back();
    if (PyObject_GetBuffer(array.ptr(), &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | PyBUF_WRITABLE) != 0) {
        views_.pop_back();
        throw nb::python_error();
    }
    const sluice_type type = type_from_format(view.format, view.itemsize);
    if (type == 0) {
        raise(PyExc_TypeError, "out for the " + label + " has elements of the format '" + std::string(view.format) +
                                   "', which networks do not have");
    }
    buffers_.push_back(
        {view.buf, reinterpret_cast<const std::int64_t*>(view.shape), static_cast<std::size_t>(view.ndim), type});
}

}  // namespace sluice::python

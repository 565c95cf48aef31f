// SPDX-License-Identifier: Apache-2.0
#include "prepared.hpp"

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "arguments.hpp"
#include "array_inputs.hpp"
#include "array_outputs.hpp"
#include "host_buffer.hpp"
#include "interpreter_end.hpp"

namespace sluice::python {
namespace {

// The handle, which the object and its arrays share: an array may outlive the object.
class shared_handle {
public:
    explicit shared_handle(sluice_prepared* handle) : handle_(handle) {}
    shared_handle(const shared_handle&) = delete;  // owns the handle
    shared_handle& operator=(const shared_handle&) = delete;
    ~shared_handle() {
        if (!birth_.is_here()) return;
        const gil_given_away without_gil;  // the last object of a runtime ends it
        sluice_prepared_destroy(handle_);
    }

    sluice_prepared* get() const noexcept { return handle_; }
    const made_here& birth() const noexcept { return birth_; }

private:
    sluice_prepared* const handle_;
    const made_here birth_;
};

// What an array shows.
class prepared_memory {
public:
    prepared_memory(std::shared_ptr<shared_handle> owner, const sluice_buffer& memory, bool is_readonly)
        : owner_(std::move(owner)), shown_(memory, is_readonly) {}

    int show(PyObject* self, Py_buffer* to, int flags) { return shown_.show(self, to, flags); }

private:
    std::shared_ptr<shared_handle> owner_;
    host_buffer shown_;
};

PyType_Slot memory_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(+[](PyObject* self, Py_buffer* to, int flags) {
                                   return nb::inst_ptr<prepared_memory>(self)->show(self, to, flags);
                               })},
                              {0, nullptr}};

class prepared {
public:
    // `fixed`: names of inputs that have no memory to write.
    prepared(const network& of, sluice_prepared* handle, const std::vector<std::string>& fixed)
        : handle_(std::make_shared<shared_handle>(handle)) {
        inputs_ = arrays_of(of.inputs(), sluice_prepared_input, false, fixed);
        outputs_ = arrays_of(of.outputs(), sluice_prepared_output, true, {});
        result_ = of.outputs().size() == 1 ? nb::object(outputs_[of.outputs()[0].name]) : outputs_;
        text_ = std::string("<sluice.Prepared on ") + of.device() + ":" + text_of(of.inputs(), inputs_) + " ->" +
                text_of(of.outputs(), outputs_) + ">";
    }

    // The dicts are the caller's; the arrays are shared.
    nb::object inputs() const { return inputs_.attr("copy")(); }
    nb::object outputs() const { return outputs_.attr("copy")(); }
    const std::string& text() const noexcept { return text_; }
    std::size_t memory_bytes() const {
        std::size_t bytes = 0;
        check(sluice_prepared_memory(handle_->get(), &bytes));
        return bytes;
    }

    nb::object run() const {
        handle_->birth().require("this prepared network");
        const work_in_flight call;
        sluice_status status = SLUICE_OK;
        {
            const nb::gil_scoped_release without_gil;
            status = sluice_prepared_run(handle_->get());
        }
        check(status);
        return result_;
    }

private:
    using find_memory = sluice_status (*)(const sluice_prepared*, size_t, sluice_buffer*);

    nb::dict arrays_of(const std::vector<named_value>& values, find_memory find, bool is_readonly,
                       const std::vector<std::string>& without) const {
        nb::dict made;
        for (std::size_t i = 0; i < values.size(); ++i) {
            if (std::ranges::find(without, nb::cast<std::string>(values[i].name)) != without.end()) continue;
            sluice_buffer memory{};
            check(find(handle_->get(), i, &memory));
            nb::object shown =
                nb::cast(new prepared_memory(handle_, memory, is_readonly), nb::rv_policy::take_ownership);
            made[values[i].name] = numpy().asarray(shown);
        }
        return made;
    }
    static std::string text_of(const std::vector<named_value>& values, const nb::dict& arrays) {
        std::string text;
        for (const named_value& each : values) {
            if (!arrays.contains(each.name)) continue;
            const nb::object shape = nb::object(arrays[each.name]).attr("shape");
            text += " " + nb::cast<std::string>(each.name) + " " + nb::cast<std::string>(nb::str(nb::handle(shape)));
        }
        return text;
    }

    std::shared_ptr<shared_handle> handle_;
    nb::dict inputs_, outputs_;
    nb::object result_;
    std::string text_;
};

}  // namespace

nb::object prepare(const network& of, PyObject* args, PyObject* kwargs) {
    of.birth().require("this network");
    const work_in_flight call;
    for (const std::vector<named_value>* const values : {&of.inputs(), &of.outputs()}) {
        for (const named_value& each : *values) {
            if (each.type == SLUICE_BF16)
                raise(PyExc_ValueError, each.label + " is bfloat16, which NumPy does not have: call net(...)");
            if (each.is_text)
                raise(PyExc_ValueError, each.label + " is text, which has no memory in place: call net(...)");
        }
    }
    std::vector<std::string> names;
    std::vector<std::vector<std::int64_t>> shapes;
    const auto by_position = static_cast<std::size_t>(PyTuple_Size(args));
    if (by_position > of.inputs().size()) {
        raise(PyExc_TypeError, "the network has " + std::to_string(of.inputs().size()) + " inputs, and is given " +
                                   std::to_string(by_position) + " shapes");
    }
    for (std::size_t i = 0; i < by_position; ++i) {
        names.push_back(nb::cast<std::string>(of.inputs()[i].name));
        shapes.push_back(lengths_in(PyTuple_GetItem(args, static_cast<Py_ssize_t>(i)), of.inputs()[i].label));
    }
    std::vector<std::string> fixed;
    std::deque<array_input> numbers;  // their views stay where they are
    PyObject *key = nullptr, *value = nullptr;
    for (Py_ssize_t at = 0; kwargs != nullptr && PyDict_Next(kwargs, &at, &key, &value) != 0;) {
        std::string name = nb::cast<std::string>(nb::handle(key));
        const std::string label = "input '" + name + "'";
        if (PyObject_CheckBuffer(value) == 0 && PyObject_HasAttrString(value, "__dlpack__") == 0) {
            shapes.push_back(lengths_in(value, label));
            names.push_back(std::move(name));
        } else {
            numbers.emplace_back().take_host(value, label);
            fixed.push_back(std::move(name));
        }
    }
    std::vector<sluice_input_shape> given;
    for (std::size_t i = 0; i < names.size(); ++i)
        given.push_back({names[i].c_str(), shapes[i].data(), shapes[i].size()});
    std::vector<sluice_fixed_input> held;
    for (std::size_t i = 0; i < fixed.size(); ++i) held.push_back({fixed[i].c_str(), numbers[i].tensor()});
    sluice_prepared* handle = nullptr;
    sluice_status status = SLUICE_OK;
    {
        const nb::gil_scoped_release without_gil;
        status =
            sluice_prepared_create_fixed(of.handle(), given.data(), given.size(), held.data(), held.size(), &handle);
    }
    check(status);
    return nb::cast(new prepared(of, handle, fixed), nb::rv_policy::take_ownership);
}

void bind_prepared(nb::module_& in) {
    nb::class_<prepared_memory>(in, "_PreparedMemory", nb::type_slots(memory_slots),
                                "Memory of a prepared network, for NumPy.");
    nb::class_<prepared>(in, "Prepared", nb::is_weak_referenceable(),
                         "A network for inputs of given shapes, with memory of its own: write the arrays of `inputs`, "
                         "call run(), read those of `outputs`. One thread at a time.")
        .def_prop_ro("inputs", &prepared::inputs,
                     "The inputs by name: arrays in place, zeros at first, which keep their values.")
        .def_prop_ro("outputs", &prepared::outputs,
                     "The outputs by name: arrays in place, read-only, which the next run writes. Copy what you keep.")
        .def_prop_ro("memory_bytes", &prepared::memory_bytes,
                     "The bytes of inputs, outputs and all values in between; weights are the network's.")
        .def("run", &prepared::run,
             "Computes the outputs from the inputs, without the GIL. Returns the array of the only output, or the dict "
             "of all: the same objects at each call.")
        .def("__repr__", &prepared::text);
}

}  // namespace sluice::python

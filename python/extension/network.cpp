// SPDX-License-Identifier: Apache-2.0
#include "network.hpp"

#include "array_inputs.hpp"
#include "array_outputs.hpp"
#include "profile.hpp"
#include "run.hpp"

namespace sluice::python {
namespace {

nb::handle value_type, rounding_type;  // kept for the process's life

using describe = sluice_status (*)(const sluice_network*, size_t, sluice_value_info*);

sluice_value_info info_of(sluice_network* of, std::size_t index, describe ask) {
    sluice_value_info info{};
    info.size = sizeof(info);
    check(ask(of, index, &info));
    return info;
}

nb::str interned(const char* text) {
    PyObject* const made = PyUnicode_InternFromString(text);
    if (made == nullptr) throw nb::python_error();
    return nb::steal<nb::str>(made);
}

std::vector<named_value> values_of(sluice_network* of, std::size_t count, describe ask, const char* what) {
    std::vector<named_value> made;
    for (std::size_t i = 0; i < count; ++i) {
        const sluice_value_info info = info_of(of, i, ask);
        made.push_back({interned(info.name), std::string(what) + " '" + info.name + "'", info.type});
    }
    return made;
}

nb::object dimension_of(const sluice_dimension& from) {
    if (from.length != SLUICE_ANY_LENGTH) return nb::int_(from.length);
    return from.name[0] != 0 ? nb::object(nb::str(from.name)) : nb::none();
}

// The tuple of Values that net.inputs and net.outputs are.
nb::object described(const network& of, const std::vector<named_value>& values, describe ask) {
    nb::list made;
    for (std::size_t i = 0; i < values.size(); ++i) {
        const sluice_value_info info = info_of(of.handle(), i, ask);
        nb::object shape = nb::none();
        if (info.rank != SLUICE_ANY_RANK) {
            nb::list lengths;
            for (std::size_t d = 0; d < info.rank; ++d) lengths.append(dimension_of(info.dimensions[d]));
            shape = nb::tuple(lengths);
        }
        made.append(value_type(values[i].name, dtype_name(info.type), shape));
    }
    return nb::tuple(made);
}

nb::object rounding_of(const network& of) {
    sluice_rounding_info info{};
    info.size = sizeof(info);
    check(sluice_network_rounding(of.handle(), &info));
    nb::list kept;
    for (std::size_t i = 0; i < info.kept_count; ++i) kept.append(nb::str(info.kept[i]));
    return rounding_type(info.precision, info.rounded, info.quantized, nb::tuple(kept), info.how, info.is_native != 0);
}

std::string text_of(const network& of) {
    std::string text = "<sluice.Network on " + std::string(of.device()) + ":";
    const auto add = [&](const std::vector<named_value>& values) {
        for (const named_value& each : values) text += " " + nb::cast<std::string>(each.name);
    };
    add(of.inputs());
    text += " ->";
    add(of.outputs());
    return text + ">";
}

PyType_Slot network_slots[] = {
    {Py_tp_call, reinterpret_cast<void*>(+[](PyObject* self, PyObject* args, PyObject* kwargs) -> PyObject* {
         return in_slot<PyObject*>(nullptr,
                                   [&] { return nb::inst_ptr<network>(self)->call(args, kwargs).release().ptr(); });
     })},
    {0, nullptr}};

}  // namespace

network::network(sluice_network* handle) : handle_(handle, sluice_network_destroy) {
    std::size_t inputs = 0, outputs = 0;
    check(sluice_network_input_count(handle, &inputs));
    check(sluice_network_output_count(handle, &outputs));
    check(sluice_network_device(handle, &device_));
    inputs_ = values_of(handle, inputs, sluice_network_input, "input");
    outputs_ = values_of(handle, outputs, sluice_network_output, "output");
}

network::~network() {
    if (!birth_.is_here()) {
        static_cast<void>(handle_.release());
        return;
    }
    // The last object of a runtime ends it, which waits for a thread that may wait for the GIL.
    const nb::gil_scoped_release without_gil;
    handle_.reset();
}

nb::object network::call(PyObject* args, PyObject* kwargs) const {
    birth_.require("this network");
    const array_inputs inputs(*this, args, kwargs);
    sluice_result* result = nullptr;
    sluice_status status = SLUICE_OK;
    {
        const nb::gil_scoped_release without_gil;
        status = sluice_network_run(handle_.get(), inputs.tensors.data(), inputs.tensors.size(), &result);
    }
    check(status);
    return arrays_of(*this, owned(result));
}

nb::object network::forward(nb::handle self, PyObject* args, PyObject* kwargs) const {
    birth_.require("this network");
    const array_inputs inputs(*this, args, kwargs);
    in_flight work(inputs);
    sluice_result* result = nullptr;
    sluice_status status = SLUICE_OK;
    {
        const nb::gil_scoped_release without_gil;
        status = sluice_network_forward(handle_.get(), inputs.tensors.data(), inputs.tensors.size(), in_flight::end,
                                        work.context(), &result);
    }
    check(status);
    work.started();
    return tensors_of(*this, owned_with(result, nb::borrow(self)));
}

void set_value_types(nb::object value, nb::object rounding) {
    value_type = value.release();
    rounding_type = rounding.release();
}

void bind_network(nb::module_& in) {
    nb::class_<network>(in, "Network", nb::type_slots(network_slots),
                        "A network on a device: net(x) runs it. Threads may share it.")
        .def_prop_ro("inputs", [](const network& self) { return described(self, self.inputs(), sluice_network_input); })
        .def_prop_ro("outputs",
                     [](const network& self) { return described(self, self.outputs(), sluice_network_output); })
        .def_prop_ro("device", &network::device)
        .def_prop_ro("rounding", rounding_of)
        .def("profile", [](const network& self, nb::args args,
                           nb::kwargs kwargs) { return profile(self, args.ptr(), kwargs.ptr()); })
        .def("forward",
             [](nb::handle self, nb::args args, nb::kwargs kwargs) {
                 return nb::inst_ptr<network>(self)->forward(self, args.ptr(), kwargs.ptr());
             })
        .def("submit",
             [](nb::handle self, nb::args args, nb::kwargs kwargs) { return submit(self, args.ptr(), kwargs.ptr()); })
        .def("__repr__", text_of);
}

}  // namespace sluice::python

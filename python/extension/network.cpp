// SPDX-License-Identifier: Apache-2.0
#include "network.hpp"

#include "array_inputs.hpp"
#include "array_outputs.hpp"
#include "call_options.hpp"
#include "interpreter_end.hpp"
#include "prepared.hpp"
#include "profile.hpp"
#include "run.hpp"
#include "session.hpp"

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
        made.push_back({interned(info.name), std::string(what) + " '" + info.name + "'", info.type, info.is_text != 0});
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
        made.append(value_type(values[i].name, info.is_text != 0 ? "str" : dtype_name(info.type), shape));
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

network::network(sluice_network* handle, nb::object made_by)
    : handle_(handle, sluice_network_destroy), made_by_(std::move(made_by)) {
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
    const gil_given_away without_gil;  // the last object of a runtime ends it
    handle_.reset();
}

nb::object network::call(PyObject* args, PyObject* kwargs) const {
    birth_.require("this network");
    const work_in_flight call;
    call_options options(*this, kwargs);
    const array_inputs inputs(*this, args, options.left());
    if (options.out().is_valid()) return call_into(inputs, options.out());
    sluice_result* result = nullptr;
    sluice_status status = SLUICE_OK;
    {
        const nb::gil_scoped_release without_gil;
        status = sluice_network_run(handle_.get(), inputs.tensors.data(), inputs.tensors.size(), &result);
    }
    check(status);
    return options.has_choice() ? chosen_arrays_of(*this, owned(result), options.choice(), options.is_one())
                                : arrays_of(*this, owned(result));
}

nb::object network::call_into(const array_inputs& inputs, nb::object out) const {
    const room_for_outputs room(*this, out);
    sluice_status status = SLUICE_OK;
    {
        const nb::gil_scoped_release without_gil;
        status = sluice_network_run_into(handle_.get(), inputs.tensors.data(), inputs.tensors.size(),
                                         room.buffers().data(), room.buffers().size());
    }
    check(status);
    return out;
}

nb::object network::forward(nb::handle self, PyObject* args, PyObject* kwargs) const {
    birth_.require("this network");
    for (const named_value& each : outputs_)
        if (each.is_text) raise(PyExc_ValueError, each.label + " is text, which is no Tensor: call net(...)");
    const work_in_flight call;
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
    nb::class_<network>(
        in, "Network", nb::type_slots(network_slots), nb::is_weak_referenceable(),
        "A network on a device. net(x) runs it and waits, without the GIL; inputs are given by position "
        "or by name. One output is an array, several are a dict by name. `out` names arrays to write, "
        "`outputs` those outputs that are returned. Threads may share it.")
        .def_prop_ro(
            "inputs", [](const network& self) { return described(self, self.inputs(), sluice_network_input); },
            "The inputs: names, types and shapes.")
        .def_prop_ro(
            "outputs", [](const network& self) { return described(self, self.outputs(), sluice_network_output); },
            "The outputs: names, types and shapes.")
        .def_prop_ro("device", &network::device, "The name of the device: \"cpu:0\".")
        .def_prop_ro("rounding", rounding_of, "What a precision other than \"f32\" made of products and convolutions.")
        .def(
            "prepare",
            [](const network& self, nb::args args, nb::kwargs kwargs) {
                return prepare(self, args.ptr(), kwargs.ptr());
            },
            "The network for inputs of these shapes, by position or by name: net.prepare(x=(8, 64)). Inputs whose "
            "shape the model says need none. An input whose numbers decide about shapes or about what is computed is "
            "given as an array, and is the same in each run: net.prepare(input=(1, 576), sr=numpy.array(16000)). Takes "
            "time, and makes runs short: see Prepared.")
        .def("session", make_session, nb::kw_only(), nb::arg("pairs") = nb::none(), nb::arg("shapes") = nb::none(),
             "The network with memory, step by step: see Session. The state is what the names of inputs and outputs "
             "say, or pairs={\"hn\": \"h0\"}: the output that is the next input. shapes says lengths of the state "
             "that neither the file nor the first step's inputs say.")
        .def(
            "profile",
            [](const network& self, nb::args args, nb::kwargs kwargs) {
                return profile(self, args.ptr(), kwargs.ptr());
            },
            "The time of each node: the network is made again on a device that is traced, and runs `runs` times (20) "
            "on "
            "these arrays.")
        .def(
            "forward",
            [](nb::handle self, nb::args args, nb::kwargs kwargs) {
                return nb::inst_ptr<network>(self)->forward(self, args.ptr(), kwargs.ptr());
            },
            "As net(x), with the outputs in the memory of the device: a Tensor, or a dict of them. On a GPU it does "
            "not "
            "wait.")
        .def(
            "submit",
            [](nb::handle self, nb::args args, nb::kwargs kwargs) { return submit(self, args.ptr(), kwargs.ptr()); },
            "Starts a run with a copy of the inputs, and returns a Run, which can be awaited.")
        .def(
            "__copy__", [](nb::object self) { return self; }, "Itself: a network never changes.")
        .def(
            "__deepcopy__", [](nb::object self, nb::handle) { return self; }, "Itself: a network never changes.")
        .def_prop_ro("_made_by", &network::made_by, "How to make the network again: a function and its arguments.")
        .def("__repr__", text_of);
}

}  // namespace sluice::python

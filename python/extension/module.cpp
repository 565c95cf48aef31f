// SPDX-License-Identifier: Apache-2.0
// sluice._sluice: the extension module. The package in src/sluice gives its names.
#include "builder.hpp"
#include "interpreter_end.hpp"
#include "network.hpp"
#include "prepared.hpp"
#include "profile.hpp"
#include "run.hpp"
#include "runtime.hpp"
#include "session.hpp"
#include "tensor.hpp"

NB_MODULE(_sluice, module) {
    namespace nb = nanobind;
    using namespace sluice::python;
    nb::set_leak_warnings(false);  // objects that live when the interpreter ends are no leak
    module.attr("__version__") = sluice_version();
    bind_tensor(module);
    bind_network(module);
    bind_prepared(module);
    bind_session(module);
    bind_run(module);
    bind_runtime(module);
    bind_builder(module);
    module.def("_start", [](nb::tuple errors, nb::object missing_file, nb::object device, nb::object value,
                            nb::object rounding, nb::object profile, nb::object profile_row, nb::object await_run) {
        set_error_types(std::move(errors), std::move(missing_file));
        set_device_type(std::move(device));
        set_value_types(std::move(value), std::move(rounding));
        set_profile_types(std::move(profile), std::move(profile_row));
        set_await_function(std::move(await_run));
    });
    module.def("_shut_down", shut_down);
}

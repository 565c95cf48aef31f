// SPDX-License-Identifier: Apache-2.0
// machine: the class sluice.Runtime.
#pragma once

#include <functional>

#include "failures.hpp"

namespace sluice::python {

// The Python class of Device(name, kind, description, compute_units, memory_bytes).
void set_device_type(nb::object type);

// Makes a network on a device of the runtime that the object is; `make` is called without the GIL.
using network_maker = std::function<sluice_status(sluice_runtime*, const sluice_network_options*, sluice_network**)>;
nb::object make_on(nb::handle runtime, const std::string& device, std::size_t streams, const std::string& precision,
                   const network_maker& make);

void bind_runtime(nb::module_& in);

}  // namespace sluice::python

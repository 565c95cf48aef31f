// SPDX-License-Identifier: Apache-2.0
// machine: the class sluice.Runtime.
#pragma once

#include "failures.hpp"

namespace sluice::python {

// The Python class of Device(name, kind, description, compute_units, memory_bytes).
void set_device_type(nb::object type);

void bind_runtime(nb::module_& in);

}  // namespace sluice::python

// SPDX-License-Identifier: Apache-2.0
// prepared: the class sluice.Prepared, a network for inputs of given shapes, which NumPy's arrays show in place.
#pragma once

#include "network.hpp"

namespace sluice::python {

// net.prepare(...): a shape for each input, by position or by name.
nb::object prepare(const network& of, PyObject* args, PyObject* kwargs);

void bind_prepared(nb::module_& in);

}  // namespace sluice::python

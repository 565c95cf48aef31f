// SPDX-License-Identifier: Apache-2.0
// net.profile(...): the time of each node, as objects of sluice.Profile.
#pragma once

#include "network.hpp"

namespace sluice::python {

// Runs without the GIL. Throws as net(...), and for a number of runs that is not at least 1.
nb::object profile(const network& of, PyObject* args, PyObject* kwargs);

// The Python classes Profile and ProfileRow.
void set_profile_types(nb::object profile, nb::object row);

}  // namespace sluice::python

// SPDX-License-Identifier: Apache-2.0
// session: the class sluice.Session, a network with memory, step by step.
#pragma once

#include "network.hpp"

namespace sluice::python {

// net.session(...): `pairs` and `shapes` are dicts, or None. `self` is the network's object.
nb::object make_session(nb::handle self, nb::object pairs, nb::object shapes);

void bind_session(nb::module_& in);

}  // namespace sluice::python

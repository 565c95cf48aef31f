// SPDX-License-Identifier: Apache-2.0
// Which argument of a call is which input.
#pragma once

#include <vector>

#include "network.hpp"

namespace sluice::python {

// The arguments in the order of the network's inputs: by position, by name, or first some by position. Borrowed from
// args and kwargs; kwargs may be null. Throws TypeError for an input that is missing, given twice, or not there.
std::vector<PyObject*> arguments_of(const network& what, PyObject* args, PyObject* kwargs);

}  // namespace sluice::python

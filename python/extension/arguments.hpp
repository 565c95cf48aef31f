// SPDX-License-Identifier: Apache-2.0
// Which argument of a call is which input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "network.hpp"

namespace sluice::python {

// The arguments in the order of the network's inputs: by position, by name, or first some by position. Borrowed from
// args and kwargs; kwargs may be null. Throws TypeError for an input that is missing, given twice, or not there.
std::vector<PyObject*> arguments_of(const network& what, PyObject* args, PyObject* kwargs);
// The same for some of the inputs: those with these numbers, in this order.
std::vector<PyObject*> arguments_of(const network& what, const std::vector<std::size_t>& which, PyObject* args,
                                    PyObject* kwargs);

// The lengths of a shape, a tuple or a list; `label` is for messages. Throws TypeError for another object.
std::vector<std::int64_t> lengths_in(nb::handle shape, const std::string& label);

// Throws OverflowError for a number beyond 64 bits.
std::int64_t integer_in(nb::handle number);

}  // namespace sluice::python

// SPDX-License-Identifier: Apache-2.0
// Outputs as arrays of NumPy, or as objects of sluice.Tensor.
#pragma once

#include <array>

#include "network.hpp"
#include "tensor.hpp"

namespace sluice::python {

// NumPy's functions and types, found once: a program that has no array yet need not import NumPy.
struct numpy_names {
    nb::object empty, asarray;
    std::array<nb::object, SLUICE_BOOL + 1> types;  // by sluice_type; bfloat16 has none
};
const numpy_names& numpy();

// A copy of memory of the host.
nb::object array_copy(const sluice_buffer& from);

// One output as an array, several as a dict by name. The arrays own their memory, and may be written. Large ones are
// the result's memory and are not copied.
nb::object arrays_of(const network& what, const result_ptr& result);

// Some of them: the array of the only one, or a dict by name.
nb::object chosen_arrays_of(const network& what, const result_ptr& result, const std::vector<std::size_t>& choice,
                            bool is_one);

// The same as objects of sluice.Tensor.
nb::object tensors_of(const network& what, const result_ptr& result);

}  // namespace sluice::python

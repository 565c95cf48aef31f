// SPDX-License-Identifier: Apache-2.0
// Outputs as arrays of NumPy; and the class sluice.Tensor, which is memory of a result for other libraries.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "network.hpp"

namespace sluice::python {

// NumPy's functions and types, found once: a program that has no array yet need not import NumPy.
struct numpy_names {
    nb::object empty, asarray, ascontiguousarray;
    std::array<nb::object, SLUICE_BOOL + 1> types;  // by sluice_type; bfloat16 has none
};
const numpy_names& numpy();

// NumPy's name: "float32"; or "bfloat16".
const char* dtype_name(sluice_type type) noexcept;

using result_ptr = std::shared_ptr<sluice_result>;
result_ptr owned(sluice_result* result);

// One output as an array, several as a dict by name. The arrays own their memory, and may be written. Large ones are
// the result's memory and are not copied.
nb::object arrays_of(const network& what, const result_ptr& result);

void bind_tensor(nb::module_& in);

}  // namespace sluice::python

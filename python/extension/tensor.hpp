// SPDX-License-Identifier: Apache-2.0
// tensor: the class sluice.Tensor, memory of a result for other libraries: by DLPack, by the CUDA array interface on a
// GPU, by the buffer protocol on the host.
#pragma once

#include <memory>

#include "failures.hpp"

namespace sluice::python {

// NumPy's name: "float32"; or "bfloat16".
const char* dtype_name(sluice_type type) noexcept;

using result_ptr = std::shared_ptr<sluice_result>;
// May be dropped on any thread.
result_ptr owned(sluice_result* result);
// The same for a result on a GPU, which uses its network's runtime: it also keeps the network's object, so that the
// runtime never ends where a library drops memory.
result_ptr owned_with(sluice_result* result, nb::object network);

nb::object shape_tuple(const std::int64_t* lengths, std::size_t rank);

// `device` is the name of the network's device, where the output is unless it is in host memory.
nb::object tensor_of(const result_ptr& result, std::size_t index, const std::string& device);

// Whether the object is a sluice.Tensor. Its slots are those of the buffer protocol, also where it refuses that: on a
// GPU, and of bfloat16.
bool is_tensor(nb::handle object);

void bind_tensor(nb::module_& in);

}  // namespace sluice::python

// SPDX-License-Identifier: Apache-2.0
// Arrays of Python as inputs: objects with the buffer protocol, such as NumPy's arrays, objects with __dlpack__, and
// objects with __cuda_array_interface__.
#pragma once

#include <vector>

#include "cuda_array.hpp"
#include "dlpack.hpp"
#include "network.hpp"

namespace sluice::python {

// The type of a format of the buffer protocol: one letter, perhaps after a sign for the order of bytes. 0 for what is
// no type of networks, such as "Zf", "3s" and ">f".
sluice_type type_from_format(const char* format, Py_ssize_t bytes) noexcept;

// The memory of one input. It stays as long as this object, which is destroyed with the GIL.
class array_input {
public:
    array_input() = default;
    array_input(const array_input&) = delete;  // owns the view
    array_input& operator=(const array_input&) = delete;
    ~array_input() {
        if (view_.obj != nullptr) PyBuffer_Release(&view_);
    }

    // Once. Arrays that are not row-major are copied by NumPy. Throws TypeError for an object that is no array, or with
    // elements that networks do not have; ValueError for an array on another device than the network's.
    void take(const network& what, std::size_t index, PyObject* given);

    // The same for any use, of an array in the host's memory; `label` is for messages.
    void take_host(PyObject* given, const std::string& label);

    const sluice_tensor& tensor() const noexcept { return tensor_; }
    // What keeps the memory of an input on a GPU; null for the host's memory.
    nb::object device_owner() const {
        if (tensor_.memory != SLUICE_DEVICE) return {};
        return shown_.owner().is_valid() ? shown_.owner() : lent_.capsule();
    }

private:
    bool take_view(PyObject* from);
    void take_texts(const network& what, std::size_t index, PyObject* given);
    void take_buffer(PyObject* given, const std::string& label);
    void take_dlpack(const network& what, PyObject* given, const std::string& label);
    bool take_cuda_array(const network& what, PyObject* given, const std::string& label);

    Py_buffer view_{};
    nb::object copy_;  // that view_ is of
    lent_tensor lent_;
    cuda_array shown_;
    sluice_tensor tensor_{};
};

// All inputs of a call.
struct array_inputs {
    array_inputs(const network& what, PyObject* args, PyObject* kwargs);

    std::vector<array_input> arrays;
    std::vector<sluice_tensor> tensors;
};

}  // namespace sluice::python

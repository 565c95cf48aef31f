// SPDX-License-Identifier: Apache-2.0
// host_buffer: row-major memory of the host, for the buffer protocol.
#pragma once

#include <vector>

#include "failures.hpp"

namespace sluice::python {

class host_buffer {
public:
    // The memory, and its shape, outlive this object.
    host_buffer(const sluice_buffer& memory, bool is_readonly);

    std::size_t bytes() const noexcept { return static_cast<std::size_t>(bytes_); }
    // For Py_bf_getbuffer of `self`. Sets Python's error and returns -1 for elements of bfloat16, which have no format
    // there, and for a request to write what is read-only, or for another order of the elements.
    int show(PyObject* self, Py_buffer* to, int flags);

private:
    sluice_buffer memory_;
    std::vector<Py_ssize_t> strides_;  // in bytes
    Py_ssize_t bytes_ = 0;
    bool is_readonly_;
};

}  // namespace sluice::python

// SPDX-License-Identifier: Apache-2.0
// What a call of a network takes apart from its inputs: where outputs are written, and which are returned.
#pragma once

#include <vector>

#include "network.hpp"

namespace sluice::python {

// `out` and `outputs` among the arguments by name. Throws TypeError where both are given, and ValueError for the name
// of an output that is not there.
class call_options {
public:
    call_options(const network& what, PyObject* kwargs);

    PyObject* left() const noexcept { return left_.is_valid() ? left_.ptr() : given_; }  // the other arguments
    const nb::object& out() const noexcept { return out_; }                              // null: not given
    bool has_choice() const noexcept { return has_choice_; }
    const std::vector<std::size_t>& choice() const noexcept { return choice_; }
    bool is_one() const noexcept { return is_one_; }  // one name is given, and not a list of names

private:
    nb::object take(const network& what, const char* name);
    void choose(const network& what, nb::handle names);

    PyObject* given_;
    nb::object left_, out_;
    std::vector<std::size_t> choice_;
    bool has_choice_ = false, is_one_ = false;
};

// Arrays of the caller's that a run writes: one, or a dict by name, or a list. Throws TypeError for another number of
// them and for what is no array; BufferError or ValueError for memory that is read-only or not row-major.
class room_for_outputs {
public:
    room_for_outputs(const network& what, nb::handle out);
    room_for_outputs(const room_for_outputs&) = delete;  // owns the views
    room_for_outputs& operator=(const room_for_outputs&) = delete;
    ~room_for_outputs();

    const std::vector<sluice_buffer>& buffers() const noexcept { return buffers_; }

private:
    void add(const network& what, nb::handle array);

    std::vector<Py_buffer> views_;
    std::vector<sluice_buffer> buffers_;
};

}  // namespace sluice::python

// SPDX-License-Identifier: Apache-2.0
// network: the class sluice.Network.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "failures.hpp"

namespace sluice::python {

// An input or an output.
struct named_value {
    nb::str name;       // interned
    std::string label;  // "input 'x'", for messages
    sluice_type type;
    bool is_text = false;  // codes of texts
};

struct array_inputs;

// Thread safety: immutable.
class network {
public:
    // Takes the handle over. `made_by` is how to make the network again: a callable and its arguments, or None.
    explicit network(sluice_network* handle, nb::object made_by = nb::none());
    network(const network&) = delete;  // owns the handle
    network& operator=(const network&) = delete;
    ~network();

    sluice_network* handle() const noexcept { return handle_.get(); }
    const made_here& birth() const noexcept { return birth_; }
    const std::vector<named_value>& inputs() const noexcept { return inputs_; }
    const std::vector<named_value>& outputs() const noexcept { return outputs_; }
    const char* device() const noexcept { return device_; }

    const nb::object& made_by() const noexcept { return made_by_; }

    // net(...): runs with these arguments, and waits without the GIL. `out` and `outputs` among the arguments by name
    // are the call's own, unless the network has an input of that name.
    nb::object call(PyObject* args, PyObject* kwargs) const;
    // net.forward(...): objects of sluice.Tensor; on a GPU it does not wait.
    // `self` is this object's.
    nb::object forward(nb::handle self, PyObject* args, PyObject* kwargs) const;

private:
    nb::object call_into(const array_inputs& inputs, nb::object out) const;

    std::unique_ptr<sluice_network, void (*)(sluice_network*)> handle_;
    const made_here birth_;
    const char* device_ = nullptr;
    std::vector<named_value> inputs_, outputs_;
    nb::object made_by_;
};

// The Python classes Value and Rounding.
void set_value_types(nb::object value, nb::object rounding);

void bind_network(nb::module_& in);

}  // namespace sluice::python

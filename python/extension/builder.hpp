// SPDX-License-Identifier: Apache-2.0
// builder: the class that sluice.op writes networks with.
#pragma once

#include "failures.hpp"

namespace sluice::python {

void bind_builder(nb::module_& in);

}  // namespace sluice::python

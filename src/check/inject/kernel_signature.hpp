// SPDX-License-Identifier: Apache-2.0
// kernel_signature: what the mangled name of a kernel says about its
// parameters.
#pragma once

#include <string>
#include <vector>

#include "check/inject/ptx_accesses.hpp"

namespace sluice::check {

enum class parameter_kind : unsigned char {
    no_pointer,
    const_pointer,  // to what is const
    pointer,
    unknown,  // the name has no types, as that of an extern "C" kernel
};

struct kernel_signature {
    std::string name;  // "scale(float*, float)"; the mangled one where it has no types
    std::vector<parameter_kind> parameters;
    bool has_types = false;
};

// Of a mangled name as compilers write it. `parameters` is how many the kernel
// has; a name that says otherwise is taken to have no types.
kernel_signature signature_of(const std::string& mangled, std::size_t parameters);

// What the PTX of the kernel proves: a pointer that is only read through becomes one to const, one without an access
// none. A pointer to const stays one. Nothing is proven by PTX with another number of parameters.
void refine(kernel_signature& known, const std::vector<ptx_access>& by);

}  // namespace sluice::check

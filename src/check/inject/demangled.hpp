// SPDX-License-Identifier: Apache-2.0
// demangled: the name of a function as a person writes it.
#pragma once

#include <string>

namespace sluice::check {

// "scale(float*)" of "_Z5scalePf"; another name stays as it is.
std::string demangled(const std::string& mangled);

}  // namespace sluice::check

// SPDX-License-Identifier: Apache-2.0
// What the result of compiling a source depends on.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sluice/cuda/kernel_module.hpp"

namespace sluice::cuda {

// The compiler's options: the user's, and the architecture of a GPU unless they name one.
std::vector<std::string> options_for(int compute_capability, const std::vector<std::string>& given);

// Whether the result depends on nothing but the source, the options and the headers that were given: nothing includes
// another file. In doubt, false.
bool depends_on_given_text_only(std::string_view source, const source_options& how);

// The text that identifies the result, for a cache. `versions`: of the compiler and the driver.
std::string key_of(std::string_view source, const source_options& how, const std::vector<std::string>& options,
                   std::string_view versions);

}  // namespace sluice::cuda

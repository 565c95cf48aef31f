// SPDX-License-Identifier: Apache-2.0
// Numbers and texts of JSON arrays as the elements of a tensor.
#pragma once

#include <simdjson.h>

#include <cstddef>
#include <string>

#include "serve/growing_memory.hpp"
#include "sluice/nn/text_codes.hpp"
#include "sluice/serve/tensor_view.hpp"

namespace sluice::serve {

// Appends the elements of `data`, which is flat or nested as the shape is. Throws refusal (bad_request): for something
// else than numbers (of BOOL: true and false), a number that the type cannot hold, a fraction for an integer, arrays
// that are not nested as the shape is, and another number of elements than the shape's; and what growing_memory::add
// throws. `where` names the tensor.
void append_numbers(growing_memory& to, io::dtype type, const tensor_shape& shape, simdjson::dom::array data,
                    const std::string& where);

// The same for texts: appends their codes, of 8 bytes.
void append_codes(growing_memory& to, const tensor_shape& shape, simdjson::dom::array data, const nn::text_codes& codes,
                  const std::string& where);

}  // namespace sluice::serve

// SPDX-License-Identifier: Apache-2.0
// Headers of safetensors files as JSON, and how the reader refuses them.
#pragma once

#include <string>
#include <string_view>

#include "io/support/hostile_files.hpp"
#include "sluice/io/safetensors.hpp"

namespace sluice::io::testing {

inline void parse(std::string_view file) { safetensors_view view(bytes_of(file), label); }

// A header with this JSON must be refused at `part` (the first one, or the first after `from`).
inline void expect_header_refused(std::string_view json, std::string_view part, const std::string& field,
                                  const std::string& why, std::size_t from = 0) {
    expect_refused([&] { parse(safetensors_bytes(json, std::string(16, '\0'))); },
                   {offset_in(json, part, from), field, why});
}

// One tensor "w" whose object has these members.
inline std::string one_tensor(std::string_view members) { return std::string("{\"w\":{").append(members).append("}}"); }

// Two tensors of f32 with these lengths and offsets.
inline std::string two_tensors(std::string_view a_shape, std::string_view a, std::string_view b_shape,
                               std::string_view b) {
    std::string json = R"({"a":{"dtype":"F32","shape":)";
    json.append(a_shape).append(R"(,"data_offsets":)").append(a);
    json.append(R"(},"b":{"dtype":"F32","shape":)").append(b_shape).append(R"(,"data_offsets":)").append(b);
    return json.append("}}");
}

}  // namespace sluice::io::testing

// SPDX-License-Identifier: Apache-2.0
// What the fuzzer does with one configuration in protobuf's text format.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "serve/config_pbtxt.hpp"
#include "serve/utf8.hpp"
#include "sluice/base/file_error.hpp"

namespace sluice::serve::fuzz {

// Of a refusal: a line that any terminal and log can show, however long the file's words are.
inline void require_short_line(std::string_view text) {
    const auto is_control = [](unsigned char each) { return each < 0x20 || each == 0x7f; };
    if (text.size() > 4000 || !is_utf8(text) || std::ranges::any_of(text, is_control)) std::abort();
}

inline void require_tensors(const configured_tensors& its, std::size_t most) {
    std::size_t all = its.all.size();
    for (const configured_tensor& each : its.all) {
        all += each.name.size() + each.dims.size();
        for (const std::int64_t length : each.dims)
            if (length < -1 || length == 0) std::abort();
    }
    if (all > most) std::abort();
}

// A refusal is correct. What is accepted is no larger than its text; its keys are those that config.json may have, and
// always say how many rows are joined.
inline void read_config_pbtxt(std::span<const std::byte> file) {
    const std::string text(reinterpret_cast<const char*>(file.data()), file.size());
    try {
        const pbtxt_config got = parse_config_pbtxt(text, "config.pbtxt");
        if (!got.keys.is_object() || !got.keys.contains("max_batch")) std::abort();
        if (got.keys.dump().size() > 64 * text.size() + 512) std::abort();
        if (got.model_file.find('/') != std::string::npos) std::abort();
        if (got.inputs.has_rows != got.outputs.has_rows) std::abort();
        require_tensors(got.inputs, text.size());
        require_tensors(got.outputs, text.size());
    } catch (const file_error& refusal) {
        require_short_line(refusal.what());
    }
}

}  // namespace sluice::serve::fuzz

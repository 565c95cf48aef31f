// SPDX-License-Identifier: Apache-2.0
// What was thrown on one side, as bytes, so that the other side throws the same: the type, the code, the text, and what
// it concerns. Codes of other libraries become errc::io_failed, their texts stay.
#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace sluice::serve {

std::string packed_failure(const std::exception& failure);

// Throws it: refusal, std::bad_alloc, nn::run_too_large, file_error, out_of_memory, device_error or error, with the
// same what(). Throws worker_damage for bytes that are none.
[[noreturn]] void throw_failure(std::string_view bytes);

// Its text. Throws worker_damage.
std::string text_of_failure(std::string_view bytes);

}  // namespace sluice::serve

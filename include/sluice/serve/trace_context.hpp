// SPDX-License-Identifier: Apache-2.0
// trace_context: which distributed trace a request belongs to, as W3C Trace Context says it (the field traceparent).
//
// All functions here take constant time, and hex_text is linear in the number of bytes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sluice::serve {

using trace_id = std::array<std::uint8_t, 16>;  // as W3C Trace Context has it
using span_id = std::array<std::uint8_t, 8>;    // as W3C Trace Context has it

struct trace_context {
    trace_id trace{};         // to which the request belongs
    span_id parent{};         // the caller's span
    bool is_sampled = false;  // the caller records the trace
};

// Of the value of a field traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01". Empty for a value
// that W3C Trace Context (level 1) does not allow: upper case, zeros only, a wrong length, the version ff. Of later
// versions the first four parts are read.
std::optional<trace_context> parse_traceparent(std::string_view value) noexcept;

// Two lower-case digits a byte.
std::string hex_text(std::span<const std::uint8_t> bytes);

// An identifier that no other span has, for all practical purposes; never zeros only. May be called on any thread.
trace_id new_trace_id();
span_id new_span_id();  // the same for a span

}  // namespace sluice::serve

// SPDX-License-Identifier: Apache-2.0
#include "serve/grpc/status.hpp"

#include <array>
#include <charconv>
#include <cstddef>

#include "sluice/base/printable.hpp"

namespace sluice::serve {
namespace {

grpc::StatusCode code_of(refusal_kind kind) {
    switch (kind) {
        case refusal_kind::bad_request: return grpc::StatusCode::INVALID_ARGUMENT;
        case refusal_kind::not_found: return grpc::StatusCode::NOT_FOUND;
        case refusal_kind::forbidden: return grpc::StatusCode::PERMISSION_DENIED;
        case refusal_kind::queue_full: return grpc::StatusCode::RESOURCE_EXHAUSTED;
        case refusal_kind::unavailable: return grpc::StatusCode::UNAVAILABLE;
        case refusal_kind::late: return grpc::StatusCode::DEADLINE_EXCEEDED;
        case refusal_kind::cancelled: return grpc::StatusCode::CANCELLED;
        case refusal_kind::failed: return grpc::StatusCode::INTERNAL;
        case refusal_kind::no_memory:
        case refusal_kind::too_large: return grpc::StatusCode::RESOURCE_EXHAUSTED;
    }
    return grpc::StatusCode::INTERNAL;
}

// Clients take 8 KiB of metadata, of which the text is a part, with three bytes for one that is not ASCII. One that is
// longer would get them another status.
constexpr std::size_t longest_text = 2000;

}  // namespace

grpc::Status status_of(const refusal& why) noexcept {
    try {
        return {code_of(why.kind()), printable(why.why(), longest_text)};
    } catch (const std::exception&) {
        return no_memory_status();
    }
}

grpc::Status status_of(const refusal& why, grpc::ServerContext& context) noexcept {
    try {
        if (why.kind() == refusal_kind::queue_full && why.waiting() != 0)
            context.AddTrailingMetadata("queue-length", std::to_string(why.waiting()));
    } catch (const std::exception&) {
        return no_memory_status();
    }
    return status_of(why);
}

// The text is short enough to lie in the string itself.
grpc::Status no_memory_status() noexcept { return {grpc::StatusCode::RESOURCE_EXHAUSTED, "out of memory"}; }

std::string name_of(grpc::StatusCode code) {
    static constexpr std::array<const char*, 17> names{
        "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
        "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
        "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
        "DATA_LOSS", "UNAUTHENTICATED"};
    const auto at = static_cast<std::size_t>(code);
    return at < names.size() ? names[at] : std::to_string(static_cast<int>(code));
}

std::optional<std::size_t> version_of(std::string_view text) {
    if (text.empty()) return std::nullopt;
    std::size_t version = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), version);
    if (failure != std::errc() || end != text.data() + text.size())
        throw refusal(refusal_kind::not_found, "the version " + in_quotes(text) + " is no number");
    return version;
}

}  // namespace sluice::serve

// SPDX-License-Identifier: Apache-2.0
// How gRPC says what a refusal says, and the protocol's texts of versions.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "sluice/serve/refusal.hpp"

namespace sluice::serve {

// The text has at most 2,000 bytes; a longer one is cut, and ends in "...".
// Where there is no memory for it: no_memory_status().
grpc::Status status_of(const refusal& why) noexcept;
// With the length of the queue in the metadata "queue-length", where the queue is full.
grpc::Status status_of(const refusal& why, grpc::ServerContext& context) noexcept;
// RESOURCE_EXHAUSTED. It takes no memory.
grpc::Status no_memory_status() noexcept;

// "NOT_FOUND"; a number for a code that gRPC does not have.
std::string name_of(grpc::StatusCode code);

// Of a message; empty: the latest. Throws refusal (not_found).
std::optional<std::size_t> version_of(std::string_view text);

}  // namespace sluice::serve

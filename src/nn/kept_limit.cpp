// SPDX-License-Identifier: Apache-2.0
#include "sluice/nn/kept_limit.hpp"

#include <utility>

namespace sluice::nn {
namespace {

thread_local std::size_t most_bytes = kept_limit::default_bytes;

}  // namespace

kept_limit::kept_limit(std::size_t bytes) noexcept : before_(std::exchange(most_bytes, bytes)) {}
kept_limit::~kept_limit() { most_bytes = before_; }
std::size_t kept_limit::current() noexcept { return most_bytes; }

}  // namespace sluice::nn

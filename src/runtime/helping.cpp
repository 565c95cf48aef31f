// SPDX-License-Identifier: Apache-2.0
#include "runtime/helping.hpp"

#include <utility>

#include "sluice/async/detail/thread_duty.hpp"

namespace sluice::detail {
namespace {

thread_local bool is_helping = false;

}  // namespace

helping_scope::helping_scope() noexcept : before_(std::exchange(is_helping, true)) {}
helping_scope::~helping_scope() { is_helping = before_; }

bool may_help() noexcept { return is_helping && duty_of_this_thread() == thread_duty::none; }

}  // namespace sluice::detail

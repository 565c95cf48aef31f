// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel_parts.hpp"

#include <utility>

namespace sluice::detail {
namespace {

thread_local part_runner* runner_of_thread = nullptr;

}  // namespace

part_runner_scope::part_runner_scope(part_runner* with) noexcept : before_(std::exchange(runner_of_thread, with)) {}
part_runner_scope::~part_runner_scope() { runner_of_thread = before_; }

part_runner* current_part_runner() noexcept { return runner_of_thread; }

}  // namespace sluice::detail

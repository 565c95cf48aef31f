// SPDX-License-Identifier: Apache-2.0
#include "nn/inference_check.hpp"

#include <atomic>

namespace sluice::nn::detail {
namespace {

std::atomic<bool> is_checked{false};

}  // namespace

void check_inference() noexcept { is_checked.store(true, std::memory_order_relaxed); }
bool is_inference_checked() noexcept { return is_checked.load(std::memory_order_relaxed); }

}  // namespace sluice::nn::detail

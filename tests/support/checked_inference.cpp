// SPDX-License-Identifier: Apache-2.0
// Linked into each test executable: a step of a network that gives another type or shape than inference says throws.
#include "nn/inference_check.hpp"

namespace {

[[maybe_unused]] const bool is_on = [] {
    sluice::nn::detail::check_inference();
    return true;
}();

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// Whether types and shapes of what steps give are compared with what inference says of them: in the tests. A network's
// memory is planned by inference.
#pragma once

namespace sluice::nn::detail {

// From here on, in the whole process: a step that gives something else throws error (errc::shape_mismatch).
void check_inference() noexcept;
bool is_inference_checked() noexcept;

}  // namespace sluice::nn::detail

// SPDX-License-Identifier: Apache-2.0
// The loops of attention for any processor.
#include "kernels/attention/attention_loops.hpp"

namespace sluice::kernels {

const attention_loops attention_baseline = {&attend};

}  // namespace sluice::kernels

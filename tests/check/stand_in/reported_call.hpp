// SPDX-License-Identifier: Apache-2.0
// What the stand-ins for the CUDA driver and for CUPTI say to each other.
#pragma once

#include <cuda.h>
#include <cupti.h>

namespace sluice::check::testing {

// "stand_in_report" of the stand-in for CUPTI: a call of the driver begins, or has ended.
using report_function = void (*)(CUpti_CallbackId id, bool begins, const void* params, CUresult* result);

}  // namespace sluice::check::testing

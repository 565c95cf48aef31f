// SPDX-License-Identifier: Apache-2.0
// The header of the C interface compiles alone as C++, twice.
#include "sluice/c/sluice.h"

static_assert(SLUICE_OK == 0 && sizeof(sluice_status) == 4 && sizeof(sluice_type) == 4);
// The interface is stable: these sizes never change.
static_assert(sizeof(sluice_tensor) == 32 && sizeof(sluice_buffer) == 32 && sizeof(sluice_dimension) == 16);

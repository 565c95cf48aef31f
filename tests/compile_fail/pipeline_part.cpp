// SPDX-License-Identifier: Apache-2.0
// A part of a block synchronises on a barrier that counts whole warps.
#include <sluice/kernels/pipelined_forms.hpp>

bool make() {
#ifdef SLUICE_EXPECT_OK
    return sluice::pipelined::part<64, sluice::pipelined::two_stages>::fits(128);
#else
    return sluice::pipelined::part<48, sluice::pipelined::two_stages>::fits(128);
#endif
}

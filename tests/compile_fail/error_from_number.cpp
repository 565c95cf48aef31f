// SPDX-License-Identifier: Apache-2.0
// An error needs a code that names its category; a bare number says nothing.
#include <sluice/base/error.hpp>

sluice::error make() {
#ifdef SLUICE_EXPECT_OK
    return sluice::error(sluice::errc::bad_file, "no header");
#else
    return sluice::error(8, "no header");
#endif
}

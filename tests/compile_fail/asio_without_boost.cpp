// SPDX-License-Identifier: Apache-2.0
// The optional header says what is missing; the rest of the library does not need it.
#ifdef SLUICE_EXPECT_OK
#include <sluice/sluice.hpp>
#else
#include <sluice/asio.hpp>
#endif

// SPDX-License-Identifier: Apache-2.0
// In place of a Boost that is too old, unless the right one is expected.
#ifdef SLUICE_EXPECT_OK
#include_next <boost/version.hpp>
#else
#define BOOST_VERSION 107400
#endif

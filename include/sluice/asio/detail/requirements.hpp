// SPDX-License-Identifier: Apache-2.0
// Says clearly what is missing, where Boost.Asio's own headers would not.
#pragma once

#if defined(__CUDACC__)
#error "sluice/asio.hpp: include it in .cpp files; nvcc does not take Boost.Asio's coroutines"
#endif
#if !__has_include(<boost/asio.hpp>) || !__has_include(<boost/version.hpp>)
#error "sluice/asio.hpp: Boost.Asio was not found; install Boost 1.81 or later, or do without this optional header"
#endif
#include <boost/version.hpp>
#if BOOST_VERSION < 108100
#error "sluice/asio.hpp: this Boost is too old; it needs Boost 1.81 or later"
#endif

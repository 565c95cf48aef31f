// SPDX-License-Identifier: Apache-2.0
// nvcc cannot compile Asio's coroutines.
#ifndef SLUICE_EXPECT_OK
#define __CUDACC__
#endif
#include <sluice/asio/detail/requirements.hpp>

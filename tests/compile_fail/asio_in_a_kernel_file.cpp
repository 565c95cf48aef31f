// nvcc does not take Asio's coroutines.
#ifndef SLUICE_EXPECT_OK
#define __CUDACC__
#endif
#include <sluice/asio/requirements.hpp>

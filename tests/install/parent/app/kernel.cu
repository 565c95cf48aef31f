// SPDX-License-Identifier: Apache-2.0
#include <sluice/base/kernel.hpp>

struct kernel {
    SLUICE_KERNEL int operator()() const { return 1; }
};

bool is_compiled_by_nvcc() {
#ifdef __CUDACC__
    return kernel()() == 1;
#else
    return kernel()() != 1;
#endif
}

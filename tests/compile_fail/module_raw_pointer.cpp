// SPDX-License-Identifier: Apache-2.0
// A function of a module takes tensors, not addresses that nothing orders.
#include <sluice/cuda/kernel_module.hpp>

#include <utility>

void run(const sluice::module_function<void(const float*, float*)>& function, const float* from,
         sluice::shared_tensor<float> x, sluice::tensor<float> y) {
#ifdef SLUICE_EXPECT_OK
    static_cast<void>(from);
    static_cast<void>(function(sluice::blocks(1, 32), std::move(x), std::move(y)));
#else
    static_cast<void>(function(sluice::blocks(1, 32), from, std::move(y)));
#endif
}

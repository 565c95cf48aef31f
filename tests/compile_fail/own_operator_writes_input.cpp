// SPDX-License-Identifier: Apache-2.0
// The inputs of a node are shared: a kernel of an own operator cannot write them.
#include <sluice/sluice.hpp>

struct copy_elements {
    SLUICE_KERNEL void operator()(sluice::index_1d at, sluice::view<const float> x,
                                  sluice::disjoint_view<float> y) const {
        if (float* const element = y.at(at)) *element = x[at.value()];
    }
};

void run(sluice::nn::operator_call& node) {
    const sluice::nn::any_tensor& x = node.input(0);
    const sluice::nn::new_tensor y = node.make_output(0, x.type(), x.shape());
#ifdef SLUICE_EXPECT_OK
    node.launch(copy_elements{}, each_of(y), x, y);
#else
    node.launch(copy_elements{}, each_of(y), y, x);
#endif
}

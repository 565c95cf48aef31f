// SPDX-License-Identifier: Apache-2.0
// Copies to shared memory are of 16 bytes: whole elements only.
#include <sluice/kernels/pipelined_transform.hpp>

#ifdef SLUICE_EXPECT_OK
using element = unsigned;
#else
struct element {
    unsigned parts[3];
};
#endif

struct copy_all {
    void operator()(const element* batch, element* out, std::size_t count, unsigned rank, unsigned threads) const {
        for (std::size_t i = rank; i < count; i += threads) out[i] = batch[i];
    }
};

void make(sluice::stream on, const sluice::tensor<element>& in, sluice::tensor<element>& out) {
    sluice::pipelined_transform(on, sluice::pipelined::two_stages{}, copy_all{}, in, out);
}

// SPDX-License-Identifier: Apache-2.0
// The function object of run_pipelined gets the batch's place in the input.
#include <sluice/kernels/pipelined_loops.hpp>

unsigned count(const unsigned* in, std::size_t size, void* shared) {
    unsigned all = 0;
    const sluice::pipelined::batches<unsigned> input{in, size, 128};
#ifdef SLUICE_EXPECT_OK
    const auto work = [&](const unsigned*, std::size_t, std::size_t found, unsigned, unsigned) {
#else
    const auto work = [&](const unsigned*, std::size_t found, unsigned, unsigned) {
#endif
        all += static_cast<unsigned>(found);
    };
    sluice::run_pipelined(sluice::pipelined::two_stages{}, input, shared, work);
    return all;
}

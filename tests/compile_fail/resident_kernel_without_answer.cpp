// SPDX-License-Identifier: Apache-2.0
// A kernel that stays takes a block, a request and an answer.
#include <sluice/kernels/resident_kernel.hpp>

struct without_answer {
    int operator()(const sluice::thread_block&, const int& asked) { return asked; }
};
struct with_answer {
    void operator()(const sluice::thread_block&, const int& asked, int& answer) { answer = asked; }
};

int ask(sluice::device& on) {
#ifdef SLUICE_EXPECT_OK
    return sluice::resident_kernel(on, with_answer{}).ask(1);
#else
    return sluice::resident_kernel(on, without_answer{}).ask(1);
#endif
}

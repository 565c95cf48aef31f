// SPDX-License-Identifier: Apache-2.0
// own_policy: a scheduling policy of your own (in own_policy.hpp). This one keeps one stream free for urgent
// operations: every eighth operation uses that express lane, the others use the rest in turn. The results are the same
// for any policy.

#include "own_policy.hpp"

#include <cstdio>

using namespace own_policy;

int main() try {
    runtime machine;
    express_lane lanes(machine.default_device(), 3);
    const float sum = sum_of_squares(32, lanes);
    std::printf("0 + 1 + 4 + ... + 31 * 31 = %.0f; %d of 32 took the express lane\n", sum, lanes.express_count());
} catch (const std::exception& failure) {
    std::fprintf(stderr, "own_policy: %s\n", failure.what());
    return 1;
}

// SPDX-License-Identifier: Apache-2.0
// Operations give the same numbers, bit for bit, run eagerly and compiled.

#include "conformance/agreement_operations.hpp"
#include "conformance/backend.hpp"

namespace sluice::conformance::agreement_tests {
namespace {

CONFORMANCE_SUITE(agreement);

TEST_P(agreement, every_operation_gives_the_same_numbers_eagerly_and_compiled) {
    round_robin pool(on, 3);
    int compared = 0;
    for_each_way(pool, [&](const std::string& name, int round, const auto& eagerly, const auto& otherwise) {
        EXPECT_FALSE(eagerly.empty());
        EXPECT_EQ(eagerly, otherwise) << name << ", round " << round;
        ++compared;
    });
    EXPECT_EQ(compared, 26 * 3 * 4);
}

}  // namespace
}  // namespace sluice::conformance::agreement_tests

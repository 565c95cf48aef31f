// SPDX-License-Identifier: Apache-2.0
#include "check/inject/kernel_signature.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::check::kernel_signature_tests {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr auto none = parameter_kind::no_pointer;
constexpr auto reads = parameter_kind::const_pointer;
constexpr auto writes = parameter_kind::pointer;

}  // namespace

TEST(kernel_signature, has_what_the_types_of_pointers_say) {
    const kernel_signature plain = signature_of("_Z5scalePfPKff", 3);
    EXPECT_EQ(plain.name, "scale(float*, float const*, float)");
    EXPECT_THAT(plain.parameters, ElementsAre(writes, reads, none));
    EXPECT_TRUE(plain.has_types);
}

TEST(kernel_signature, reads_templates_and_functions_in_unnamed_namespaces) {
    EXPECT_THAT(signature_of("_ZN12_GLOBAL__N_14makeEPf", 1).parameters, ElementsAre(writes));
    // void fill<std::array<float*, 2>, 4>(std::array<float*, 2>, int const*)
    const auto with_struct = signature_of("_Z4fillISt5arrayIPfLm2EELi4EEvT_PKi", 2);
    EXPECT_THAT(with_struct.parameters, ElementsAre(none, reads)) << with_struct.name;
}

TEST(kernel_signature, of_pointers_to_pointers_is_that_of_the_outer_one) {
    EXPECT_THAT(signature_of("_Z1fPKPfPPKf", 2).parameters, ElementsAre(reads, writes));
}

TEST(kernel_signature, is_unknown_where_the_name_has_no_types_or_others) {
    EXPECT_THAT(signature_of("untyped", 2).parameters, Each(parameter_kind::unknown));
    EXPECT_FALSE(signature_of("untyped", 2).has_types);
    EXPECT_THAT(signature_of("_Z5scalePfPKff", 2).parameters, Each(parameter_kind::unknown));
    EXPECT_THAT(signature_of("untyped", 0).parameters, IsEmpty());
}

}  // namespace sluice::check::kernel_signature_tests

// SPDX-License-Identifier: Apache-2.0
// The activations of recurrent units, for each kind of vector unit that this processor has, against the same in double.
#include "kernels/recurrent/recurrent_units.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace sluice::kernels::recurrent_units_tests {
namespace {

constexpr std::uint32_t all_curves = static_cast<std::uint32_t>(recurrent_curve::softplus) + 1;

std::vector<float> arguments() {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    std::vector<float> made{infinity, -infinity, std::nanf(""), 0.0f, 1e30f, -1e30f, 1e-42f, 88.0f, -104.0f, 1.0f};
    for (int i = -2'000; i <= 2'000; ++i) made.push_back(static_cast<float>(i) * 0.0123f);
    for (float small = 1e-20f; small < 1; small *= 1.7f) made.insert(made.end(), {small, -small});
    made.resize((made.size() + 15) / 16 * 16, 0.5f);
    return made;
}

TEST(recurrent_units, activations_are_those_of_double_precision) {
    const std::vector<float> x = arguments();
    for (const recurrent_units* const units : known_recurrent_units()) {
        for (std::uint32_t curve = 0; curve < all_curves; ++curve) {
            for (const float clip : {0.0f, 1.5f}) {
                const recurrent_activation what{static_cast<recurrent_curve>(curve), 0.3f, 0.2f, clip};
                std::vector<float> made = x;
                units->activate(what, made.data(), made.size());
                for (std::size_t i = 0; i < x.size(); ++i) {
                    const double exact = what(static_cast<double>(x[i]));
                    ASSERT_EQ(std::isnan(made[i]), std::isnan(exact)) << "curve " << curve << " of " << x[i];
                    if (std::isnan(exact)) continue;
                    // Where a sum is near 0 it is off by a part of its terms.
                    const double term =
                        what.what == recurrent_curve::affine || what.what == recurrent_curve::hard_sigmoid ? 1e-7
                                                                                                           : 1e-45;
                    if (std::isinf(static_cast<float>(exact))) {
                        ASSERT_EQ(made[i], static_cast<float>(exact));
                    } else {
                        ASSERT_NEAR(made[i], exact, std::fabs(exact) * 5e-7 + term)
                            << "curve " << curve << " of " << x[i];
                    }
                }
            }
        }
    }
}

}  // namespace
}  // namespace sluice::kernels::recurrent_units_tests

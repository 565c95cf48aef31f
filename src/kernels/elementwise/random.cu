// SPDX-License-Identifier: Apache-2.0
// Random numbers, one source for both sides. Each element makes its counter's four words and keeps one: it needs
// no other thread for that.
#include "sluice/kernels/random.hpp"

#include "sluice/kernels/philox.hpp"
#include "sluice/runtime/launch.hpp"

namespace sluice {
namespace {

struct random_kernel {
    distribution what;
    std::uint64_t seed;
    std::uint64_t first;

    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<float> x) const {
        float* const element = x.at(at);
        if (element == nullptr) return;
        const std::uint64_t place = first + at.value();
        const std::uint32_t word = philox(seed, 0, place / 4).word[place % 4];
        *element = what == distribution::uniform ? uniform_from(word) : normal_from(word);
    }
};

}  // namespace

void fill_random(stream on, tensor<float>& x, distribution what, std::uint64_t seed, std::uint64_t first,
                 source_location location) {
    launch_on(on, random_kernel{what, seed, first}, launch_range{shape{x.size()}, false, location}, x);
}

}  // namespace sluice

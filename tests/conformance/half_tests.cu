// SPDX-License-Identifier: Apache-2.0
// half and bfloat16 have the same bits in a kernel as on the host, although a GPU converts them by instructions of its
// own: every value there and back, and floats around the middle of two neighbours.
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "conformance/backend.hpp"
#include "sluice/base/half.hpp"

namespace sluice::conformance::half_tests {
namespace {

CONFORMANCE_SUITE(halves);

template <typename T>
struct widen {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<float> to) const {
        if (float* const e = to.at(at)) *e = T::from_bits(static_cast<std::uint16_t>(at.value()));
    }
};

template <typename T>
struct narrow {
    SLUICE_KERNEL void operator()(index_1d at, view<const float> from, disjoint_view<unsigned> to) const {
        if (unsigned* const e = to.at(at)) *e = T(from[at.value()]).bits();
    }
};

constexpr std::size_t values = 0x10000;

// Each value, the middle of it and the next one, what is just below and above that, and NaNs of several bits.
template <typename T>
std::vector<float> floats_around() {
    std::vector<float> made{std::bit_cast<float>(0x7f80'0001u), std::bit_cast<float>(0xffc1'2345u), 1e-45f, -0.0f,
                            3.4e38f};
    for (unsigned bits = 0; bits + 1 < values; ++bits) {
        const float here = T::from_bits(static_cast<std::uint16_t>(bits));
        const float next = T::from_bits(static_cast<std::uint16_t>(bits + 1));
        const float middle = static_cast<float>((double{here} + double{next}) / 2);
        made.insert(made.end(), {here, middle, std::nextafter(middle, here), std::nextafter(middle, next)});
    }
    return made;
}

template <typename T>
void expect_bits_of_host(single_stream& pool) {
    auto wide = sync(zeros<float>({values}), pool);
    launch_on(pool.next(), widen<T>{}, each_of(wide), wide);
    const std::vector<float> there = contents(std::move(wide), pool.next());
    for (unsigned bits = 0; bits < values; ++bits) {
        const float expected = T::from_bits(static_cast<std::uint16_t>(bits));
        if (std::isnan(expected)) {
            ASSERT_TRUE(std::isnan(there[bits])) << bits;
        } else {
            ASSERT_EQ(std::bit_cast<std::uint32_t>(there[bits]), std::bit_cast<std::uint32_t>(expected)) << bits;
        }
    }

    const std::vector<float> floats = floats_around<T>();
    auto from = sync(upload(floats), pool);
    auto narrowed = sync(zeros<unsigned>({floats.size()}), pool);
    launch_on(pool.next(), narrow<T>{}, each_of(narrowed), from, narrowed);
    const std::vector<unsigned> back = contents(std::move(narrowed), pool.next());
    for (std::size_t i = 0; i < floats.size(); ++i) ASSERT_EQ(back[i], T(floats[i]).bits()) << floats[i];
}

}  // namespace

TEST_P(halves, have_the_bits_of_the_host_in_kernels) {
    single_stream pool(on);
    expect_bits_of_host<half>(pool);
    expect_bits_of_host<bfloat16>(pool);
}

}  // namespace sluice::conformance::half_tests

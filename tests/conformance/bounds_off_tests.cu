// SPDX-License-Identifier: Apache-2.0
// Kernels that do not check their bounds (SLUICE_CHECK_BOUNDS is 0). The same kernels are compiled with checks in
// another file of this program: the linker does not mix the two.
#undef SLUICE_CHECK_BOUNDS
#define SLUICE_CHECK_BOUNDS 0
#include <type_traits>

#include "conformance/backend.hpp"
#include "support/bounds_kernels.hpp"

namespace sluice::conformance::bounds_off_tests {
namespace {

using namespace test_support;

CONFORMANCE_SUITE(bounds_off);

// The same sizes as with checks (bounds_tests.cu), and the same parameters as without the feature.
static_assert(sizeof(view<const float>) == 2 * sizeof(void*) && sizeof(matrix_view<const float>) == 3 * sizeof(void*));
static_assert(sizeof(tile_view<float>) == 6 * sizeof(void*) && sizeof(disjoint_tiles<float>) == 5 * sizeof(void*));
static_assert(sizeof(block_part<float>) == 2 * sizeof(void*) && sizeof(disjoint_blocks<float>) == 2 * sizeof(void*));
static_assert(sizeof(shared_memory<float>) == 2 * sizeof(void*));
static_assert(sizeof(tiles_of<float, 4, 4>) == 3 * sizeof(void*));
#if !defined(__CUDA_ARCH__)  // there it is spread over threads
static_assert(sizeof(tile<float, 4, 4>) == 64);
#endif
static_assert(std::is_same_v<detail::element_index, std::size_t>);
static_assert(
    std::is_same_v<decltype(&view<const float>::operator[]), const float& (view<const float>::*)(std::size_t) const>);

template <typename Kernel>
auto elementwise(const shape& of) {
    return zip(full<float>(of, 7), zeros<float>(of)).and_then([](auto x, auto out) {
        auto range = each_of(out);
        return launch(Kernel{}, range, std::move(x), std::move(out));
    });
}

}  // namespace

TEST_P(bounds_off, nothing_is_checked) {
    round_robin pool(on, 2);
    EXPECT_EQ(sync(elementwise<reads_beyond_a_view>({10}).and_then(download), pool), std::vector<float>(10, 7));
    EXPECT_EQ(sync(elementwise<reads_beyond_the_rows>({4, 3}).and_then(download), pool), std::vector<float>(12, 7));
    EXPECT_EQ(sync(elementwise<reads_beyond_the_columns>({4, 3}).and_then(download), pool), std::vector<float>(12, 7));
}

TEST_P(bounds_off, a_launch_cannot_fail) {
    float x[1] = {};
    const auto values = detail::make_kernel_values(view<const float>(x, 1), disjoint_view<float>(x, 1));
    using body = detail::launch_body<reads_beyond_a_view, index_1d, decltype(values)>;
    typename body::closure closure{1, 1, values, {}};
    EXPECT_FALSE(body::command(closure).may_fail);
}

}  // namespace sluice::conformance::bounds_off_tests

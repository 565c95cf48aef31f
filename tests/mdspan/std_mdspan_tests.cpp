// SPDX-License-Identifier: Apache-2.0
// std::mdspan, compiled as C++23 with a standard library that has it. A program of its own, because GoogleTest and the
// library are compiled with another standard library: it is linked with the few sources of the library that the header
// needs on the host. The main of it returns 0 when all is as expected.
#include "sluice/mdspan.hpp"

#include <array>
#include <cstddef>
#include <cstdio>
#include <numeric>
#include <span>
#include <string_view>
#include <vector>

namespace {

using namespace sluice;

static_assert(SLUICE_HAS_STD_MDSPAN);

template <typename T, std::size_t Rank>
using spans = std::mdspan<T, std::dextents<std::size_t, Rank>>;
using strided = std::mdspan<float, std::dextents<std::size_t, 2>, std::layout_stride>;

// How a launch takes one.
static_assert(any_mdspan<spans<float, 2>> && any_mdspan<strided> && !any_mdspan<std::span<float>>);
static_assert(detail::bound_argument<spans<const float, 2>, tensor<float>>::use == detail::argument_use::read);
static_assert(detail::bound_argument<spans<const float, 2>, shared_tensor<float>>::use == detail::argument_use::read);
static_assert(detail::bound_argument<spans<const float, 2>, tensor<double>>::use == detail::argument_use::impossible);

int failures = 0;

void expect(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "not so: %s\n", what);
    ++failures;
}

template <typename Function>
bool is_refused(std::string_view words, const Function& call) {
    try {
        call();
    } catch (const error& refusal) {
        return refusal.code() == errc::shape_mismatch &&
               std::string_view(refusal.what()).find(words) != std::string_view::npos;
    }
    return false;
}

void from_elements_and_back() {
    std::vector<float> x(24);
    std::iota(x.begin(), x.end(), 0.f);
    const auto m = as_mdspan<spans<float, 3>>(x, {2, 3, 4});
    expect(m[1, 2, 3] == 23, "the last element is 23");
    expect(shape_of(m) == shape{2, 3, 4}, "the shape comes back");
    expect(elements_of(m).data() == x.data() && elements_of(m).size() == 24, "the elements come back");

    using pairs = std::mdspan<const float, std::extents<int, std::dynamic_extent, 2>>;
    expect(as_mdspan<pairs>(x, {12, 2})[11, 0] == 22, "an extent may be known when it is compiled");
    expect(is_refused("a tensor of shape [8, 3] does not fit an mdspan of extents [any, 2]",
                      [&] { as_mdspan<pairs>(x, {8, 3}); }),
           "another extent is refused");
    expect(is_refused("24 elements cannot have shape [5]", [&] { as_mdspan<spans<float, 1>>(x, {5}); }),
           "another number of elements is refused");
}

void regions() {
    std::vector<float> x(35);
    std::iota(x.begin(), x.end(), 0.f);
    const auto m = as_mdspan<strided>(x, {5, 7}, region{.at = {1, 2}, .shape = {3, 4}});
    expect(m[0, 0] == 9 && m[2, 3] == 26, "a region begins and ends where it says");
    expect(m.stride(0) == 7 && m.stride(1) == 1, "its rows are as far apart as the tensor's");
}

void views_of_kernels() {
    std::array<float, 12> x{};
    std::iota(x.begin(), x.end(), 0.f);
    expect(as_mdspan<spans<const float, 1>>(view<const float>(x.data(), 12))[5] == 5, "a view");
    expect(as_mdspan<spans<const float, 2>>(matrix_view<const float>(x.data(), 3, 4))[2, 1] == 9, "a matrix");
    const auto tile = as_mdspan<strided>(tile_view<float>(x.data() + 5, 1, 1, 2, 3, 4));
    expect(tile[1, 2] == 11 && tile.extent(0) == 2 && tile.extent(1) == 3, "a tile");
    const auto none = as_mdspan<strided>(tile_view<float>(x.data(), 3, 0, 0, 0, 4));
    expect(none.size() == 0, "a tile beyond the edge");
}

}  // namespace

int main() {
    from_elements_and_back();
    regions();
    views_of_kernels();
    return failures == 0 ? 0 : 1;
}

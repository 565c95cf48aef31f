// SPDX-License-Identifier: Apache-2.0
// mdspan_planes: a kernel that reads images as an mdspan of three dimensions, and code of the program's own that reads
// the result as one. With CUDA it runs on a GPU where there is one; the same lines run on the CPU.
#include <cuda/std/mdspan>

#include <cstddef>
#include <cstdio>
#include <numeric>
#include <vector>

#include "sluice/mdspan.hpp"
#include "sluice/sluice.hpp"

using namespace sluice;

using images = cuda::std::mdspan<const float, cuda::std::dextents<std::size_t, 3>>;  // image, row, column
using picture = cuda::std::mdspan<const float, cuda::std::dextents<std::size_t, 2>>;
using detail_of_picture = cuda::std::mdspan<const float, cuda::std::dextents<std::size_t, 2>, cuda::std::layout_stride>;

struct mean_image {
    SLUICE_KERNEL void operator()(index_2d at, images all, disjoint_matrix<float> mean) const {
        float* const pixel = mean.at(at);
        if (pixel == nullptr) return;
        float sum = 0;
        for (std::size_t image = 0; image < all.extent(0); ++image) sum += all(image, at.row(), at.column());
        *pixel = sum / static_cast<float>(all.extent(0));
    }
};

template <typename Matrix>
void print(const char* name, const Matrix& of) {
    std::printf("%s\n", name);
    for (std::size_t r = 0; r < of.extent(0); ++r) {
        for (std::size_t c = 0; c < of.extent(1); ++c) std::printf("%5.1f", static_cast<double>(of(r, c)));
        std::puts("");
    }
}

int main() try {
    runtime machine;
    single_stream pool(machine.default_device());

    std::vector<float> pixels(3 * 4 * 5);
    std::iota(pixels.begin(), pixels.end(), 0.f);
    const auto given = as_mdspan<images>(pixels, {3, 4, 5});

    auto mean = zip(upload(std::vector(pixels), shape_of(given)), zeros<float>({4, 5}))
                    .and_then([](tensor<float> all, tensor<float> to) {
                        return launch(mean_image{}, std::move(all), std::move(to));
                    })
                    .and_then([](tensor<float> made) { return download(std::move(made)); });
    const std::vector<float> values = sync(std::move(mean), pool);

    print("mean:", as_mdspan<picture>(values, {4, 5}));
    print("its middle:", as_mdspan<detail_of_picture>(values, {4, 5}, region{.at = {1, 1}, .shape = {2, 3}}));
} catch (const std::exception& failure) {
    std::fprintf(stderr, "mdspan_planes: %s\n", failure.what());
    return 1;
}

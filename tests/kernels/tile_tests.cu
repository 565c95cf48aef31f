// SPDX-License-Identifier: Apache-2.0
#include "sluice/kernels/tile.hpp"

#include <array>

#include "conformance/backend.hpp"
#include "kernels/fused_mlp_reference.hpp"
#include "sluice/kernels/elementwise.hpp"
#include "sluice/kernels/tile_kernels.hpp"

namespace sluice::conformance::tile_tests {
namespace {

struct sizes {
    std::size_t rows, columns, inner;
};
constexpr sizes all_sizes[] = {{64, 64, 64}, {1, 1, 1}, {65, 63, 17}, {130, 200, 96}, {128, 72, 40}, {7, 129, 250}};

struct fifteen_less {
    SLUICE_KERNEL float operator()(float x) const { return 15 - x; }
};

class tile_kernels : public conformance_test {
protected:
    template <typename T>
    tensor<T> put(const std::vector<T>& values, const shape& of) {
        return sync(upload(values, of), pool);
    }

    template <typename Arithmetic, bool Transposed, int Rows, int Columns, int Inner>
    void expect_product(const sizes& of, double bound) {
        using T = detail::tile_factor<Arithmetic>;
        using kernel = tile_gemm<Arithmetic, Transposed, Rows, Columns, Inner>;
        SCOPED_TRACE(testing::Message() << of.rows << "x" << of.columns << "x" << of.inner << " in tiles of " << Rows
                                        << "x" << Columns << "x" << Inner << (Transposed ? " transposed" : ""));
        const auto a = rounded<T>(fresh(of.rows * of.inner)), b = rounded<T>(fresh(of.inner * of.columns));
        const auto on_a = put(a, {of.rows, of.inner}), on_b = put(b, {b.size()});
        auto out = submit_to(home, full<T>({of.rows, of.columns}, T(nan)));
        const kernel product_of{
            {on_a.device_data(), of.rows, of.inner},
            {on_b.device_data(), Transposed ? of.columns : of.inner, Transposed ? of.inner : of.columns},
            {out.device_data(), of.rows, of.columns}};
        const std::array accesses{memory_access{on_a.memory(), access_mode::read},
                                  memory_access{on_b.memory(), access_mode::read},
                                  memory_access{out.memory(), access_mode::write}};
        launch_tiles(home, {"tile_gemm", accesses}, product_of.out, product_of);
        expect_close(as_floats(contents(std::move(out), home)),
                     product(as_floats(a), as_floats(b), {}, of.rows, of.columns, of.inner, Transposed), bound);
    }

    random_floats fresh{31};
    single_stream pool{on};
    stream home = pool.next();
};
INSTANTIATE_TEST_SUITE_P(, tile_kernels, testing::ValuesIn(enrolled_backends()), backend_name);

}  // namespace

TEST_P(tile_kernels, multiply_on_tensor_cores) {
    for (const sizes& of : all_sizes) {
        expect_product<half, false, 64, 64, 32>(of, 1e-2);
        expect_product<half, true, 64, 64, 32>(of, 1e-2);
        expect_product<bfloat16, false, 128, 64, 16>(of, 1e-2);
        expect_product<bfloat16, true, 32, 128, 64>(of, 1e-2);
        expect_product<tf32, false, 64, 32, 16>(of, 1e-3);
        expect_product<tf32, true, 32, 64, 8>(of, 1e-3);
    }
}

TEST_P(tile_kernels, multiply_in_plain_float) {
    for (const sizes& of : all_sizes) {
        expect_product<float, false, 64, 64, 16>(of, 1e-5);
        expect_product<float, true, 64, 64, 16>(of, 1e-5);
        expect_product<float, false, 16, 32, 4>(of, 1e-5);
        expect_product<float, true, 128, 8, 32>(of, 1e-5);
    }
}

TEST_P(tile_kernels, without_tiles_submit_nothing) {
    const ticket before = home.issued();
    const tile_gemm<half, false, 64, 64, 32> kernel{{nullptr, 0, 8}, {nullptr, 8, 8}, {nullptr, 0, 8}};
    launch_tiles(home, {"tile_gemm"}, kernel.out, kernel);
    EXPECT_EQ(home.issued(), before);
}

TEST(tiles, are_spread_so_that_reshaping_moves_nothing) {
    tile<float, 2, 8> x;
    for (int i = 0; i < 16; ++i) x[i] = static_cast<float>(i);
    const auto flat = reshape<1, 16>(x);
    for (int i = 0; i < 16; ++i) EXPECT_EQ(flat[i], x[i]);
    const auto larger = max(x, map(x, fifteen_less{}));
    for (int i = 0; i < 16; ++i) EXPECT_EQ(larger[i], std::max(i, 15 - i));
    const auto same = tile<float, 4, 4>::full(7);
    for (int i = 0; i < 16; ++i) EXPECT_EQ(same[i], 7);
}

}  // namespace sluice::conformance::tile_tests

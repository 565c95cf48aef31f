// SPDX-License-Identifier: Apache-2.0
// Every way that gemm may go on a GPU, each with every epilogue it has: whatever a table of measurements chooses is
// right.
#include <filesystem>

#include "conformance/backend.hpp"
#include "kernels/fused_mlp_reference.hpp"
#include "kernels/gemm/gemm_algorithms.hpp"
#include "kernels/gemm/gemm_dispatch.hpp"
#include "sluice/graph/executable_graph.hpp"
#include "sluice/kernels/cast.hpp"
#include "sluice/kernels/elementwise.hpp"

namespace sluice::conformance::gemm_algorithm_tests {
namespace {

class ways_of_gemm : public conformance_test {
protected:
    // By every way that fuses `after`: the product of a, b and bias is given to `check`.
    template <typename T, typename Check>
    void by_every_way(const gemm_problem& of, activation after, const std::vector<T>& a, const std::vector<T>& b,
                      const std::vector<T>& bias, Check check) {
        const auto on_a = sync(upload(a, {of.rows, of.inner}), pool), on_b = sync(upload(b, {b.size()}), pool),
                   on_bias = sync(upload(bias, {of.columns}), pool);
        const storage_ref workspace = home.workspace(kernels::gemm_on_cuda_workspace_bytes());
        kernels::gemm_call call{
            on_a.device_data(), on_b.device_data(), on_bias.device_data(), nullptr, workspace->data(), of, after, {}};
        for (const kernels::gemm_algorithm& way : kernels::gemm_algorithms_for(on, call)) {
            call.way = way;
            if (!kernels::gemm_on_cuda_fuses(call)) continue;
            SCOPED_TRACE(testing::Message()
                         << kernels::to_string(way) << ": " << to_string(of.type) << " " << of.rows << "x" << of.columns
                         << "x" << of.inner << (of.b_is_transposed ? " transposed " : " ") << to_string(after));
            auto out = submit_to(home, full<T>({of.rows, of.columns}, T(nan)));
            call.out = out.device_data();
            const std::array accesses{
                memory_access{on_a.memory(), access_mode::read}, memory_access{on_b.memory(), access_mode::read},
                memory_access{on_bias.memory(), access_mode::read}, memory_access{workspace.get(), access_mode::write},
                memory_access{out.memory(), access_mode::write}};
            home.library_call({"gemm", accesses}, {[](const native_stream& on_it, const void* closure) {
                                                       kernels::gemm_on_cuda(
                                                           *static_cast<const kernels::gemm_call*>(closure), on_it);
                                                   },
                                                   &call, sizeof(call)});
            check(as_floats(contents(std::move(out), home)));
        }
    }

    // The first row has NaN, the last an infinity, the one in the middle minus infinity; weights are positive.
    template <typename T>
    void expect_odd_rows(const gemm_problem& of) {
        auto a = rounded<T>(fresh(of.rows * of.inner));
        const std::vector<T> b(of.inner * of.columns, T(0.5f)), bias(of.columns, T(1.0f));
        a[(of.rows - 1) * of.inner + 2] = T(infinity);
        a[of.rows / 2 * of.inner + 1] = T(-infinity);
        a[0] = T(nan);
        for (const activation after : {activation::none, activation::relu}) {
            const doubles expected = activated(
                product(as_floats(a), as_floats(b), as_floats(bias), of.rows, of.columns, of.inner, of.b_is_transposed),
                after, of.columns);
            by_every_way<T>(of, after, a, b, bias, [&](const floats& got) {
                for (std::size_t i = 0; i < got.size(); ++i) {
                    const auto wanted = static_cast<float>(expected[i]);
                    ASSERT_EQ(std::isnan(got[i]), std::isnan(wanted)) << i;
                    ASSERT_EQ(std::isinf(got[i]), std::isinf(wanted)) << i;
                    ASSERT_TRUE(!std::isinf(wanted) || got[i] == wanted) << i;
                }
            });
        }
    }

    // `after` only where the way fuses it.
    template <typename T>
    void expect_agreement(const gemm_problem& of, activation after, double bound) {
        const auto a = rounded<T>(fresh(of.rows * of.inner)), b = rounded<T>(fresh(of.inner * of.columns)),
                   bias = rounded<T>(fresh(of.columns));
        const doubles expected = activated(
            product(as_floats(a), as_floats(b), as_floats(bias), of.rows, of.columns, of.inner, of.b_is_transposed),
            after, of.columns);
        by_every_way<T>(of, after, a, b, bias, [&](const floats& got) { expect_close(got, expected, bound); });
    }

    random_floats fresh{7};
    single_stream pool{on};
    stream home = pool.next();
};
INSTANTIATE_TEST_SUITE_P(, ways_of_gemm, testing::ValuesIn(enrolled_backends()), backend_name);

}  // namespace

TEST_P(ways_of_gemm, agree_with_the_reference) {
    struct size {
        std::size_t rows, columns, inner;
    };
    // One tile and less; edges in each direction; several rounds of the ring; more tiles than multiprocessors.
    for (const auto& [rows, columns, inner] :
         {size{64, 64, 64}, size{1, 8, 8}, size{130, 264, 72}, size{300, 520, 456}, size{513, 776, 136}}) {
        for (const bool transposed : {false, true}) {
            for (const activation after : {activation::none, activation::relu, activation::gelu}) {
                expect_agreement<half>({gemm_type::f16, transposed, rows, columns, inner}, after, 1e-2);
                expect_agreement<bfloat16>({gemm_type::bf16, transposed, rows, columns, inner}, after, 1e-2);
                expect_agreement<float>({gemm_type::tf32, transposed, rows, columns, inner}, after, 1e-3);
            }
        }
    }
    expect_agreement<bfloat16>({gemm_type::bf16, true, 2100, 2056, 200}, activation::tanh, 1e-2);
    expect_agreement<bfloat16>({gemm_type::bf16, false, 2100, 2056, 200}, activation::sigmoid, 1e-2);
}

TEST_P(ways_of_gemm, agree_with_the_reference_where_the_copy_engine_cannot_go) {
    for (const bool transposed : {false, true}) {
        expect_agreement<half>({gemm_type::f16, transposed, 131, 77, 45}, activation::sigmoid, 1e-2);
        expect_agreement<bfloat16>({gemm_type::bf16, transposed, 1030, 1001, 37}, activation::gelu, 1e-2);
        expect_agreement<float>({gemm_type::tf32, transposed, 131, 77, 45}, activation::tanh, 1e-3);
    }
}

TEST_P(ways_of_gemm, keep_nan_and_infinities_in_their_rows) {
    for (const std::size_t rows : {1u, 2u, 3u, 64u, 130u}) {
        expect_odd_rows<half>({gemm_type::f16, true, rows, 64, 48});
        expect_odd_rows<bfloat16>({gemm_type::bf16, true, rows, 64, 48});
        expect_odd_rows<bfloat16>({gemm_type::bf16, false, rows, 7, 33});
        expect_odd_rows<float>({gemm_type::tf32, true, rows, 64, 48});
    }
}

TEST_P(ways_of_gemm, are_chosen_as_they_were_measured) {
    using kernels::gemm_algorithm;
    auto& choices = cuda::device_context::of(on).kept<kernels::gemm_algorithms>();
    const gemm_problem measured{gemm_type::bf16, true, 7200, 8800, 96}, other{gemm_type::bf16, true, 8000, 8800, 96};
    const auto chosen = [&](const gemm_problem& of, const void* bias, activation after) {
        return kernels::choose_gemm_algorithm(on, {nullptr, nullptr, bias, nullptr, nullptr, of, after, {}});
    };
    const gemm_algorithm library{}, second{gemm_algorithm::by::library, 1}, tile{gemm_algorithm::by::wgmma, 2};
    EXPECT_EQ(chosen(measured, nullptr, activation::none), library);
    EXPECT_NE(chosen(measured, nullptr, activation::gelu).what, gemm_algorithm::by::library);
    choices.add(measured, tile);
    EXPECT_EQ(chosen(measured, nullptr, activation::none), tile);
    EXPECT_EQ(chosen(measured, &choices, activation::gelu), tile);
    EXPECT_EQ(chosen(other, nullptr, activation::none), library);
    choices.add(measured, second);
    EXPECT_EQ(chosen(measured, nullptr, activation::none), second);
    EXPECT_EQ(chosen(measured, &choices, activation::none), library);
    // The library's ReLU loses NaN: a kernel of ours where one fits, else a command after the library's product.
    EXPECT_EQ(chosen(measured, &choices, activation::relu).what, gemm_algorithm::by::wgmma);
    EXPECT_EQ(chosen({gemm_type::bf16, true, 72, 88, 33}, &choices, activation::relu), library);
    // One tile for each multiprocessor at most: ours, which start early; not in f32, nor where the copy engine cannot
    // go.
    EXPECT_EQ(chosen({gemm_type::bf16, true, 72, 88, 96}, &choices, activation::none).what, gemm_algorithm::by::wgmma);
    EXPECT_EQ(chosen({gemm_type::bf16, true, 72, 88, 33}, &choices, activation::none), library);
    EXPECT_EQ(chosen({gemm_type::tf32, true, 72, 88, 96}, &choices, activation::none), library);
    EXPECT_NE(chosen(measured, nullptr, activation::tanh).what, gemm_algorithm::by::library);
}

// The products of ours in a graph start before the kernels before them have ended. What the graph writes they read
// afterwards, b too; what it only reads they may read at once.
TEST_P(ways_of_gemm, in_graphs_wait_for_what_they_multiply) {
    constexpr std::size_t side = 512;
    const std::vector<half> ones(side * side, half(1.0f));
    const shared_tensor<half> kept(sync(upload(ones, {side, side}), pool));
    const auto fast = compile(
        pool,
        [&](tensor<float> x) {
            return cast<half>(std::move(x))
                .and_then([&](tensor<half> b) { return gemm(kept, std::move(b), {.transpose_b = true}); })
                .and_then([&](tensor<half> a) { return gemm(std::move(a), kept, {.transpose_b = true}); })
                .and_then(cast<float>())
                .and_then(download);
        },
        host_input<float>({side, side}));
    for (const float each : {1.0f, 0.0f, 0.25f, -1.0f, 0.5f}) {
        // A sum of 512 numbers, and 512 times that, scaled so that 16 bits have room.
        const std::vector<float> x(side * side, each / 512);
        EXPECT_EQ(sync(fast(x), pool), std::vector<float>(side * side, each * 512));
    }
}

TEST_P(ways_of_gemm, are_measured_into_a_table_that_later_ones_are_added_to) {
    const auto file = std::filesystem::path(testing::TempDir()) / ("gemm_table_of_" + GetParam().name + ".txt");
    std::filesystem::remove(file);
    const std::vector<gemm_problem> first{{gemm_type::bf16, true, 64, 64, 64}, {gemm_type::tf32, false, 65, 33, 17}};
    std::size_t heard = 0;
    const auto made = tune_gemm(on, first, file, [&](const gemm_measurement&) { ++heard; });
    ASSERT_EQ(made.size(), 2u);
    EXPECT_EQ(heard, 2u);
    for (const gemm_measurement& each : made) {
        EXPECT_NE(each.fastest, "");
        EXPECT_GT(each.microseconds, 0);
    }
    tune_gemm(on, std::vector<gemm_problem>{first[0], {gemm_type::f16, false, 32, 32, 32}}, file);
    const auto& origin = cuda::device_context::of(on).kept<kernels::gemm_algorithms>().origin();
    const auto table = kernels::usable_gemm_table(file, origin, [](const std::string& why) { FAIL() << why; });
    EXPECT_EQ(table.entries.size(), 3u);
    std::filesystem::remove(file);
}

}  // namespace sluice::conformance::gemm_algorithm_tests

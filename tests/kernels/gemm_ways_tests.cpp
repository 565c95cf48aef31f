// Every way that gemm may go on a GPU, each with every epilogue it has: whatever a table of measurements chooses is
// right.
#include <filesystem>

#include "conformance/backend.hpp"
#include "kernels/fused_mlp_reference.hpp"
#include "kernels/gemm_bodies.hpp"
#include "kernels/gemm_choices.hpp"
#include "sluice/kernels/elementwise.hpp"

namespace sluice::conformance {
namespace {

class ways_of_gemm : public conformance_test {
protected:
    // `after` only where the way fuses it.
    template <typename T>
    void expect_agreement(const gemm_problem& of, activation after, double bound) {
        const auto a = rounded<T>(fresh(of.rows * of.inner)), b = rounded<T>(fresh(of.inner * of.columns)),
                   bias = rounded<T>(fresh(of.columns));
        const auto on_a = sync(upload(a, {of.rows, of.inner}), pool), on_b = sync(upload(b, {b.size()}), pool),
                   on_bias = sync(upload(bias, {of.columns}), pool);
        const doubles expected = activated(
            product(as_floats(a), as_floats(b), as_floats(bias), of.rows, of.columns, of.inner, of.b_is_transposed),
            after, of.columns);
        const storage_ref workspace = home.workspace(kernels::gemm_on_cuda_workspace_bytes());
        kernels::gemm_call call{
            on_a.device_data(), on_b.device_data(), on_bias.device_data(), nullptr, workspace->data(), of, after, {}};
        for (const kernels::gemm_way& way : kernels::gemm_ways(on, call)) {
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
            expect_close(as_floats(contents(std::move(out), home)), expected, bound);
        }
    }

    random_floats fresh{7};
    single_stream pool{on};
    stream& home = pool.next();
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

TEST_P(ways_of_gemm, are_chosen_as_they_were_measured) {
    using kernels::gemm_way;
    auto& choices = cuda::device_context::of(on).kept<kernels::gemm_choices>();
    const gemm_problem measured{gemm_type::bf16, true, 72, 88, 96}, other{gemm_type::bf16, true, 80, 88, 96};
    const auto chosen = [&](const gemm_problem& of, const void* bias, activation after) {
        return kernels::choose_gemm_way(on, {nullptr, nullptr, bias, nullptr, nullptr, of, after, {}});
    };
    const gemm_way library{}, second{gemm_way::by::library, 1}, tile{gemm_way::by::wgmma, 2};
    EXPECT_EQ(chosen(measured, nullptr, activation::none), library);
    EXPECT_NE(chosen(measured, nullptr, activation::gelu).what, gemm_way::by::library);
    choices.add(measured, tile);
    EXPECT_EQ(chosen(measured, nullptr, activation::none), tile);
    EXPECT_EQ(chosen(measured, &choices, activation::gelu), tile);
    EXPECT_EQ(chosen(other, nullptr, activation::none), library);
    choices.add(measured, second);
    EXPECT_EQ(chosen(measured, nullptr, activation::none), second);
    EXPECT_EQ(chosen(measured, &choices, activation::relu), library);
    EXPECT_NE(chosen(measured, nullptr, activation::tanh).what, gemm_way::by::library);
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
    const auto& origin = cuda::device_context::of(on).kept<kernels::gemm_choices>().origin();
    const auto table = kernels::usable_gemm_table(file, origin, [](const std::string& why) { FAIL() << why; });
    EXPECT_EQ(table.entries.size(), 3u);
    std::filesystem::remove(file);
}

}  // namespace sluice::conformance

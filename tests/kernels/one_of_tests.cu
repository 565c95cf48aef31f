// SPDX-License-Identifier: Apache-2.0
// A choice among kernels: which one runs, what a measurement changes, and what is refused.
#include "sluice/kernels/one_of.hpp"

#include <unistd.h>

#include <filesystem>

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "kernels/fused_mlp_reference.hpp"
#include "sluice/kernels/creation.hpp"
#include "sluice/kernels/tile_kernels.hpp"

namespace sluice::conformance::one_of_tests {
namespace {

// Kernels that show which of them ran. (Others give the same result.)
template <int Size>
struct note_size {  // x = factor * Size
    float factor = 1;
    SLUICE_KERNEL void operator()(const tile_block& at, vector_tiles_of<float, Size> x) const {
        x.store(at, vector_tile<float, Size>::full(factor * Size));
    }
};
template <int Number>
struct note_number {  // x = Number + the length of y
    SLUICE_KERNEL void operator()(index_1d at, view<const float> y, disjoint_view<float> x) const {
        if (float* const element = x.at(at)) *element = static_cast<float>(y.size()) + Number;
    }
};
// One of them does much more work than the other.
template <int Rounds>
struct spin {  // x = 1
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<float> x) const {
        float* const element = x.at(at);
        if (element == nullptr) return;
        float value = *element;
        for (int i = 0; i < Rounds; ++i) value = value * 0.5f + 0.5f;
        *element = value;
    }
};
template <int Size>
struct two_outputs {
    SLUICE_KERNEL void operator()(const tile_block& at, vector_tiles_of<float, Size> x,
                                  vector_tiles_of<float, Size> y) const {
        x.store(at, vector_tile<float, Size>::full(Size));
        y.store(at, vector_tile<float, Size>::full(-Size));
    }
};

using sizes = one_of<note_size<64>, note_size<128>, note_size<256>>;
using numbers = one_of<note_number<0>, note_number<100>>;

class choices : public conformance_test {
protected:
    template <typename Kernels>
    void measured(const Kernels& kernels, std::vector<shape> shapes, std::size_t fastest) {
        tuning_measurement made{on.properties().name, {}, std::move(shapes), fastest, 1, 2};
        for (const std::string_view name : Kernels::names()) made.kernels.emplace_back(name);
        kernels.table()->add(std::move(made));
    }

    round_robin pool{on, 2};
    const std::shared_ptr<tuning_table> table = std::make_shared<tuning_table>();
};
INSTANTIATE_TEST_SUITE_P(, choices, testing::ValuesIn(enrolled_backends()), backend_name);

}  // namespace

TEST_P(choices, without_a_measurement_take_the_first) {
    const auto of = [&](const sizes& kernels) {
        return sync(launch(kernels, zeros<float>({300})).and_then(download), pool);
    };
    EXPECT_EQ(of(sizes{}), floats(300, 64));
    EXPECT_EQ(of(sizes(table)), floats(300, 64));
    measured(sizes(table), {{301}}, 2);
    measured(sizes(table), {{300}, {300}}, 2);
    measured(sizes(table), {{3, 100}}, 2);
    measured(one_of<note_size<64>, note_size<256>>(table), {{300}}, 1);
    const auto names = sizes::names();
    table->add({"another device", std::vector<std::string>(names.begin(), names.end()), {{300}}, 2, 1, 2});
    EXPECT_EQ(of(sizes(table)), floats(300, 64));
}

TEST_P(choices, take_what_was_the_fastest_for_the_shapes) {
    measured(sizes(table), {{300}}, 2);
    measured(sizes(table), {{100}}, 1);
    for (const auto& [count, expected] : {std::pair{300, 256}, {100, 128}, {200, 64}}) {
        const std::size_t n = static_cast<std::size_t>(count);
        EXPECT_EQ(sync(launch(sizes(table), zeros<float>({n})).and_then(download), pool),
                  floats(n, static_cast<float>(expected)));
    }
    // With an explicit range, with each_written(), with tensors and shared tensors.
    measured(numbers(table), {{7}, {20}}, 1);
    const shared_tensor<float> seven(sync(zeros<float>({7}), pool));
    const floats expected(20, 107);
    EXPECT_EQ(sync(launch(numbers(table), each_of(shape{20}), seven, zeros<float>({20})).and_then(download), pool),
              expected);
    auto written = launch(numbers(table), each_written(), zeros<float>({7}), zeros<float>({20}));
    EXPECT_EQ(sync(std::move(written).and_then(download), pool), expected);
    auto from_tensors = zip(zeros<float>({7}), zeros<float>({20}))
                            .and_then([kernels = numbers(table)](auto y, auto x) {
                                const auto all = each_of(x);
                                return launch(kernels, all, std::move(y), std::move(x));
                            })
                            .and_then(download);
    EXPECT_EQ(sync(std::move(from_tensors), pool), expected);
    const shared_tensor<float> eight(sync(zeros<float>({8}), pool));
    EXPECT_EQ(sync(launch(numbers(table), eight, zeros<float>({20})).and_then(download), pool), floats(20, 8));
}

TEST_P(choices, have_kernels_with_members) {
    const one_of kernels(table, note_size<64>{2}, note_size<128>{3});
    EXPECT_EQ(sync(launch(kernels, zeros<float>({10})).and_then(download), pool), floats(10, 128));
    measured(kernels, {{10}}, 1);
    EXPECT_EQ(sync(launch(kernels, zeros<float>({10})).and_then(download), pool), floats(10, 384));
    const one_of without_table(note_size<64>{2}, note_size<128>{3});
    EXPECT_EQ(sync(launch(without_table, zeros<float>({10})).and_then(download), pool), floats(10, 128));
}

TEST_P(choices, give_back_all_that_the_kernels_write) {
    const one_of<two_outputs<64>, two_outputs<32>> kernels(table);
    measured(kernels, {{70}, {70}}, 1);
    auto both = zip(zeros<float>({70}), zeros<float>({70}))
                    .and_then([=](auto x, auto y) { return launch(kernels, each_of(x), std::move(x), std::move(y)); })
                    .and_then([](auto x, auto y) { return zip(download(std::move(x)), download(std::move(y))); });
    const auto [x, y] = sync(std::move(both), pool);
    EXPECT_EQ(x, floats(70, 32));
    EXPECT_EQ(y, floats(70, -32));
}

TEST_P(choices, in_a_graph_are_made_when_it_is_recorded) {
    const auto run = [kernels = sizes(table)](tensor<float> x) {
        return launch(kernels, std::move(x)).and_then(download);
    };
    measured(sizes(table), {{50}}, 1);
    const auto graph = compile(pool, run, device_input<float>({50}));
    for (int i = 0; i < 2; ++i)
        EXPECT_EQ(sluice::sync(graph(sluice::sync(zeros<float>({50}), pool)), pool), floats(50, 128));
    measured(sizes(table), {{50}}, 2);
    const auto later = compile(pool, run, device_input<float>({50}));
    EXPECT_EQ(sluice::sync(later(sluice::sync(zeros<float>({50}), pool)), pool), floats(50, 256));
}

TEST_P(choices, are_measured) {
    const one_of<spin<200'000>, spin<1>, spin<100'000>> kernels(table);
    const auto x = sync(ones<float>({64}), pool);
    const tuning_measurement made = tune(on, kernels, x);
    EXPECT_EQ(made.device, on.properties().name);
    const auto names = kernels.names();
    EXPECT_EQ(made.kernels, std::vector<std::string>(names.begin(), names.end()));
    EXPECT_EQ(made.shapes, (std::vector<shape>{{64}}));
    EXPECT_EQ(made.fastest, 1u) << made.microseconds << " us, the first " << made.default_microseconds;
    EXPECT_LT(made.microseconds, made.default_microseconds);
    EXPECT_EQ(table->find(on.properties().name, names, made.shapes), made.fastest);
    // Equal kernels: the first stays unless chance says otherwise, so only the measurement itself is looked at.
    const one_of<gemm_tiles<float, 16, 16, 8>, gemm_tiles<float, 32, 32, 8>> products(table);
    const auto a = sync(ones<float>({40, 30}), pool), b = sync(ones<float>({30, 50}), pool);
    auto c = sync(zeros<float>({40, 50}), pool);
    const tuning_measurement product = tune(on, products, a, b, c);
    EXPECT_EQ(product.shapes, (std::vector<shape>{{40, 30}, {30, 50}, {40, 50}}));
    EXPECT_GT(product.microseconds, 0);
    EXPECT_EQ(table->measurements().size(), 2u);
    EXPECT_EQ(sync(launch(products, upload(floats(1200, 1), {40, 30}), upload(floats(1500, 1), {30, 50}), std::move(c))
                       .and_then(download),
                   pool),
              floats(2000, 30));
    // A range, where the kernels write several.
    const one_of<two_outputs<64>, two_outputs<32>> several(table);
    const auto y = sync(ones<float>({64}), pool);
    EXPECT_EQ(tune(on, several, each_of(x), x, y).shapes, (std::vector<shape>{{64}, {64}}));
}

TEST_P(choices, measured_in_another_process_are_taken_from_a_file) {
    const std::filesystem::path file = std::filesystem::path(testing::TempDir()) /
                                       ("choices_" + GetParam().name + "_" + std::to_string(::getpid()) + ".txt");
    measured(sizes(table), {{300}}, 2);
    table->save(file);
    const auto again = std::make_shared<tuning_table>();
    again->load(file);
    std::filesystem::remove(file);
    EXPECT_EQ(sync(launch(sizes(again), zeros<float>({300})).and_then(download), pool), floats(300, 256));
}

TEST_P(choices, refuse_what_their_kernels_refuse) {
    stream home = pool.next();
    const one_of<gemm_tiles<float, 16, 16, 8>, gemm_tiles<float, 32, 32, 8>> products(table);
    auto a = sync(ones<float>({40, 30}), pool), c = sync(zeros<float>({40, 50}), pool);
    measured(products, {{40, 30}, {40, 30}, {40, 50}}, 1);
    const ticket before = home.issued();
    expect_refused_here(errc::shape_mismatch, {std::string(products.names()[1]), "do not fit a product"},
                        [&] { launch_on(home, products, each_of(c), a, a, c); });
    EXPECT_EQ(home.issued(), before);
    expect_refused(errc::shape_mismatch, {"do not fit a product"},
                   [&] { static_cast<void>(tune(on, products, a, a, c)); });
    expect_refused(errc::invalid_argument, {"table"},
                   [&] { static_cast<void>(tune(on, one_of<gemm_tiles<float, 16, 16, 8>>{}, a, a, c)); });
}

}  // namespace sluice::conformance::one_of_tests

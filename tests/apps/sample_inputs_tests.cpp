// SPDX-License-Identifier: Apache-2.0
// Inputs of networks that are measured: which dimension is the batch, and what the inputs hold.
#include "sluice/sample_inputs.hpp"

#include <gmock/gmock.h>

#include <set>

#include "apps/support/sample_files.hpp"
#include "sluice/base/error.hpp"

namespace sluice::app::testing::sample_inputs_tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

nn::dimension of(std::size_t length) { return {.length = length, .name = {}}; }
nn::dimension named(std::string name) { return {.length = {}, .name = std::move(name)}; }
nn::value_info value(std::string name, std::vector<nn::dimension> shape, io::dtype type = io::dtype::f32) {
    return {std::move(name), type, std::move(shape)};
}
bool none(std::size_t) { return false; }

std::string refusal(const std::vector<nn::value_info>& takes, const sample_options& options,
                    const std::function<bool(std::size_t)>& is_host_input = none) {
    try {
        sample_inputs(takes, options, is_host_input);
    } catch (const error& failure) {
        return failure.what();
    }
    return {};
}

}  // namespace

TEST(sample_inputs, binds_the_only_open_dimension_to_the_batch) {
    const sample_inputs made({value("x", {named("n"), of(3)}), value("mask", {of(2), named("n")}, io::dtype::i64)}, {},
                             none);
    EXPECT_TRUE(made.has_batch());
    const auto inputs = made.of_batch(5);
    EXPECT_THAT(inputs[0].shape(), ElementsAre(5, 3));
    EXPECT_THAT(inputs[1].shape(), ElementsAre(2, 5));
    EXPECT_THAT(made.source(), HasSubstr("random numbers"));
    EXPECT_FALSE(sample_inputs({value("x", {of(2), of(3)})}, {}, none).has_batch());
}

TEST(sample_inputs, of_several_open_dimensions_needs_the_lengths_of_all_but_one) {
    const std::vector<nn::value_info> takes{value("tokens", {named("batch"), named("sequence")}, io::dtype::i64)};
    EXPECT_THAT(refusal(takes, {}), HasSubstr("'batch', 'sequence'; one may be the batch, add --size NAME=LENGTH"));
    const sample_inputs made(takes, {.files = {}, .lengths = {"sequence=7"}}, none);
    EXPECT_THAT(made.of_batch(2)[0].shape(), ElementsAre(2, 7));
    const sample_inputs fixed(takes, {.files = {}, .lengths = {"sequence=7", "batch=3"}}, none);
    EXPECT_FALSE(fixed.has_batch());
    EXPECT_THAT(fixed.of_batch(99)[0].shape(), ElementsAre(3, 7));
}

TEST(sample_inputs, takes_several_dimensions_for_the_batch) {
    const std::vector<nn::value_info> takes{value("x", {named("u"), named("v")}), value("y", {named("w"), of(3)})};
    EXPECT_THAT(refusal(takes, {}), HasSubstr("the inputs are 'x' f32 [u, v], 'y' f32 [w, 3]"));
    const sample_inputs made(takes, {.files = {}, .lengths = {"u=batch", "v=7", "w=batch"}}, none);
    EXPECT_TRUE(made.has_batch());
    EXPECT_THAT(made.of_batch(5)[0].shape(), ElementsAre(5, 7));
    EXPECT_THAT(made.of_batch(5)[1].shape(), ElementsAre(5, 3));
    EXPECT_THAT(refusal(takes, {.files = {}, .lengths = {"u=batch", "w=batch"}}), HasSubstr("have no length: 'v'"));
    EXPECT_THAT(refusal(takes, {.files = {}, .lengths = {"u=batch", "u=2"}}), HasSubstr("'u' is said twice"));
}

TEST(sample_inputs, refuses_lengths_that_nothing_has) {
    const std::vector<nn::value_info> takes{value("x", {named("n"), of(3)})};
    for (const char* const wrong : {"n", "n=", "n=0", "n=-1", "n=2x", "=", "n=99999999999999999999"})
        EXPECT_THAT(refusal(takes, {.files = {}, .lengths = {wrong}}), HasSubstr("write NAME=LENGTH")) << wrong;
    EXPECT_THAT(refusal(takes, {.files = {}, .lengths = {"m=2"}}), HasSubstr("no dimension 'm' without a length"));
    EXPECT_THAT(refusal(takes, {.files = {}, .lengths = {"n=2", "n=2"}}), HasSubstr("'n' is said twice"));
}

TEST(sample_inputs, needs_files_for_what_cannot_be_random) {
    const std::vector<nn::value_info> takes{value("shape", {of(2)}, io::dtype::i64)};
    EXPECT_THAT(refusal(takes, {}, [](std::size_t) { return true; }), HasSubstr("add --input shape=FILE"));
    EXPECT_THAT(refusal({{"x", io::dtype::f32, {}}}, {}), HasSubstr("add --input x=FILE"));
    EXPECT_THAT(refusal({value("x", {named("n"), named("")})}, {}),
                HasSubstr("dimension 1 of the input 'x' has neither a length nor a name"));
}

TEST(sample_inputs, repeats_and_cuts_the_rows_of_files) {
    const temporary_directory directory;
    const std::string file = write_array<float>(directory, "x.npy", {2, 2}, {1, 2, 3, 4});
    const sample_inputs made({value("x", {named("n"), of(2)})}, {.files = {"x=" + file}, .lengths = {}}, none);
    EXPECT_EQ(made.rows_of_files(), 2u);
    EXPECT_THAT(made.of_batch(3)[0].values<float>(), ElementsAre(1, 2, 3, 4, 1, 2));
    EXPECT_THAT(made.of_batch(1)[0].values<float>(), ElementsAre(1, 2));
    EXPECT_EQ(made.source(), file);
}

TEST(sample_inputs, takes_the_other_lengths_from_files) {
    const temporary_directory directory;
    const std::string file =
        write_array<std::int64_t>(directory, "t.npy", {1, 4}, std::vector<std::int64_t>{5, 6, 7, 8});
    const sample_inputs made(
        {value("tokens", {named("n"), named("s")}, io::dtype::i64), value("mask", {named("n"), named("s")})},
        {.files = {"tokens=" + file}, .lengths = {}}, none);
    EXPECT_TRUE(made.has_batch());
    EXPECT_THAT(made.of_batch(3)[1].shape(), ElementsAre(3, 4));
    EXPECT_THAT(made.source(), HasSubstr("t.npy, random numbers"));
    const std::string empty = write_array<float>(directory, "e.npy", {0, 2}, {});
    EXPECT_THAT(refusal({value("x", {named("n"), of(2)})}, {.files = {empty}, .lengths = {}}), HasSubstr("no rows"));
}

TEST(sample_inputs, are_numbers_that_every_type_holds_and_the_same_for_each_seed) {
    const auto numbers = [](io::dtype type, std::uint64_t seed) {
        const sample_inputs made({value("x", {of(1000)}, type)}, {.files = {}, .lengths = {}, .seed = seed}, none);
        return made.of_batch(1)[0];
    };
    const auto f32 = numbers(io::dtype::f32, 1), f16 = numbers(io::dtype::f16, 1), bf16 = numbers(io::dtype::bf16, 1);
    std::set<float> distinct;
    for (std::size_t i = 0; i < 1000; ++i) {
        const float each = f32.values<float>()[i];
        EXPECT_EQ(each, static_cast<float>(f16.values<half>()[i]));
        EXPECT_EQ(each, static_cast<float>(bf16.values<bfloat16>()[i]));
        EXPECT_LE(std::abs(each), 1.0f);
        distinct.insert(each);
    }
    EXPECT_GT(distinct.size(), 200u);
    EXPECT_TRUE(std::ranges::equal(f32.bytes(), numbers(io::dtype::f32, 1).bytes()));
    EXPECT_FALSE(std::ranges::equal(f32.bytes(), numbers(io::dtype::f32, 2).bytes()));
    const auto i64 = numbers(io::dtype::i64, 1);
    for (const std::int64_t each : i64.values<std::int64_t>()) EXPECT_TRUE(each == 0 || each == 1);
}

TEST(sample_inputs, that_would_not_fit_into_memory_are_refused) {
    const sample_inputs made({value("x", {named("n"), of(std::size_t{1} << 60)})}, {}, none);
    EXPECT_THROW(static_cast<void>(made.of_batch(1 << 20)), error);
}

}  // namespace sluice::app::testing::sample_inputs_tests

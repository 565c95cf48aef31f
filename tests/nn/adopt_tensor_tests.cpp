// SPDX-License-Identifier: Apache-2.0
// adopt_tensor: networks read memory of others where it is.
#include "sluice/nn/adopt_tensor.hpp"

#include <gmock/gmock.h>

#include <latch>

#include "nn/small_models.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"

namespace sluice::nn::adopt_tensor_tests {
namespace {

using namespace test_support;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// y = x + x, of five dimensions.
model doubled() {
    model made;
    made.path = "doubled.onnx";
    made.opsets = {{"", 17}};
    const std::vector<dimension> shape = {named("n"), of(1), of(1), of(1), of(2)};
    made.body.inputs = {f32("x", shape)};
    made.body.outputs = {f32("y", shape)};
    made.body.nodes = {make_node("Add", {"x", "x"}, {"y"})};
    return made;
}

struct numbers {
    alignas(16) std::array<float, 8> values{1, 2, 3, 4, 5, 6, 7, 8};
};

class adopted_tensors : public ::testing::Test {
protected:
    runtime machine{runtime_options{.cuda = false}};
    device& cpu = machine.default_device();
    round_robin pool{cpu, 2};
};

}  // namespace

TEST_F(adopted_tensors, are_inputs_of_any_number_of_dimensions) {
    const network made = sync(make_network(doubled()), pool);
    const auto data = std::make_shared<numbers>();
    const any_tensor x = adopt_tensor(cpu, io::dtype::f32, {2, 1, 1, 1, 2}, data->values.data(), data);
    EXPECT_EQ(x.memory()->data(), data->values.data());  // not a copy
    EXPECT_FALSE(x.is_on_host());
    EXPECT_THAT(sync(made.run({x}), pool).at(0).values<float>(), ElementsAre(2, 4, 6, 8));
}

TEST_F(adopted_tensors, release_their_owner_after_the_last_use) {
    const network made = sync(make_network(doubled()), pool);
    std::latch released(1);
    const auto data = std::make_unique<numbers>();
    std::shared_ptr<const void> owner(data.get(), [&](const void*) { released.count_down(); });
    const auto run = [&](any_tensor x) { return sync(made.run({std::move(x)}), pool); };
    run(adopt_tensor(cpu, io::dtype::f32, {4, 1, 1, 1, 2}, data->values.data(), std::move(owner)));
    released.wait();
}

TEST_F(adopted_tensors, need_an_owner_an_address_and_an_alignment) {
    const auto data = std::make_shared<numbers>();
    const auto refusal = [&](std::vector<std::size_t> shape, const void* at, std::shared_ptr<const void> owner) {
        try {
            adopt_tensor(cpu, io::dtype::f32, std::move(shape), at, std::move(owner));
        } catch (const error& failure) {
            return std::string(failure.what());
        }
        return std::string("no error");
    };
    EXPECT_THAT(refusal({1}, data->values.data(), nullptr), HasSubstr("owner"));
    EXPECT_THAT(refusal({1}, nullptr, data), HasSubstr("null"));
    EXPECT_THAT(refusal({1}, data->values.data() + 1, data), HasSubstr("4 bytes after a multiple of 16"));
    EXPECT_THAT(refusal({std::size_t{1} << 40, std::size_t{1} << 40}, data->values.data(), data),
                HasSubstr("has no memory"));
    EXPECT_EQ(refusal({0, 3}, nullptr, data), "no error");
}

}  // namespace sluice::nn::adopt_tensor_tests

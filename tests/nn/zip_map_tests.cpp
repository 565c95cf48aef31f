// SPDX-License-Identifier: Apache-2.0
// ZipMap, with which skl2onnx ends classifiers: its maps are read as rows of scores.
#include <gmock/gmock.h>

#include "nn/support/onnx_maker.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::nn::zip_map_tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::onnx_maker;

// A classifier's end: scores of that many classes, and three labels.
onnx_maker with_zip_map(std::int64_t scores) {
    onnx_maker made(scores);
    onnx::OperatorSetIdProto& learning = *made.file.add_opset_import();
    learning.set_domain("ai.onnx.ml");
    learning.set_version(1);
    onnx::NodeProto& zip = made.add_node("ZipMap", {"x"}, "y");
    zip.set_domain("ai.onnx.ml");
    onnx::AttributeProto& labels = *zip.add_attribute();
    labels.set_name("classlabels_int64s");
    labels.set_type(7);
    for (const int each : {4, 2, 9}) labels.add_ints(each);
    made.body().mutable_output(0)->mutable_type()->mutable_sequence_type();
    return made;
}

template <typename Call>
std::string refusal_of(const Call& call) {
    try {
        call();
    } catch (const error& refused) {
        return refused.what();
    }
    return "was accepted";
}

}  // namespace

TEST(zip_map, gives_the_scores_in_the_order_of_its_labels) {
    const model read = with_zip_map(3).read();
    ASSERT_EQ(read.body.outputs.size(), 1u);
    EXPECT_EQ(read.body.outputs[0].type, io::dtype::f32);
    EXPECT_EQ(read.body.outputs[0].shape->at(1).length, 3u);

    runtime machine({.cuda = false});
    round_robin pool(machine.find("cpu"), 1);
    const network made = sync(make_network(read), pool);
    const any_tensor rows(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
    const any_tensor scores = sync(made.run({rows}), pool).at(0);
    EXPECT_THAT(scores.shape(), ElementsAre(2, 3));
    EXPECT_THAT(scores.values<float>(), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(zip_map, refuses_labels_that_do_not_fit_the_scores) {
    runtime machine({.cuda = false});
    round_robin pool(machine.find("cpu"), 1);
    const std::string refused = refusal_of([&] {
        const network made = sync(make_network(with_zip_map(2).read()), pool);
        static_cast<void>(sync(made.run({any_tensor(std::vector<float>{1, 2}, {1, 2})}), pool));
    });
    EXPECT_THAT(refused, HasSubstr("(ZipMap): has 3 labels, which do not fit the scores f32 [1, 2]"));
}

TEST(zip_map, refuses_nodes_that_take_its_maps) {
    onnx_maker made = with_zip_map(3);
    made.add_node("Identity", {"y"}, "z");
    EXPECT_THAT(refusal_of([&] { made.read(); }),
                HasSubstr("node 'n1' (Identity): takes the maps of a ZipMap, which are supported as outputs"));
}

TEST(zip_map, does_not_make_other_sequences_tensors) {
    onnx_maker made = with_zip_map(3);
    made.body().mutable_node(0)->set_op_type("Scaler");
    EXPECT_THAT(refusal_of([&] { made.read(); }),
                HasSubstr("output 'y': is a sequence of something else than tensors"));
}

}  // namespace sluice::nn::zip_map_tests

// SPDX-License-Identifier: Apache-2.0
// Sequences of ONNX files become values.
#include <gmock/gmock.h>

#include "nn/support/onnx_maker.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::nn::sequences_tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::onnx_maker;
using values = std::vector<float>;

class sequence_maker : public onnx_maker {
public:
    explicit sequence_maker(std::int64_t opset = 17) : onnx_maker(3) {
        file.mutable_opset_import(0)->set_version(opset);
    }

    std::string number(std::int64_t value) {
        onnx::TensorProto& made = add_integers();
        made.add_int64_data(value);
        return made.name();
    }
    std::string list(const std::vector<std::int64_t>& of) {
        onnx::TensorProto& made = add_integers();
        made.add_dims(std::int64_t(of.size()));
        for (const std::int64_t each : of) made.add_int64_data(each);
        return made.name();
    }
    void give_sequence() {
        onnx::TypeProto& type = *body().mutable_output(0)->mutable_type();
        type.mutable_sequence_type()->mutable_elem_type()->mutable_tensor_type()->set_elem_type(1);
    }

private:
    onnx::TensorProto& add_integers() {
        onnx::TensorProto& made = *body().add_initializer();
        made.set_name("k" + std::to_string(body().initializer_size()));
        made.set_data_type(7);
        return made;
    }
};

// The outputs for two rows of 1 to 6.
std::vector<any_tensor> answers(const onnx_maker& made) {
    runtime machine({.cuda = false});
    round_robin pool(machine.find("cpu"), 1);
    const network ready = sync(make_network(made.read()), pool);
    return sync(ready.run({any_tensor(values{1, 2, 3, 4, 5, 6}, {2, 3})}), pool);
}
values answer(const onnx_maker& made) {
    const auto all = answers(made);
    const auto numbers = all.at(0).values<float>();
    return {numbers.begin(), numbers.end()};
}

void expect_refused(const onnx_maker& made, const std::string& why) {
    try {
        static_cast<void>(made.read());
        ADD_FAILURE() << "was accepted: " << why;
    } catch (const file_error& refused) {
        EXPECT_THAT(refused.what(), HasSubstr(why));
    }
}

}  // namespace

TEST(sequences, are_built_changed_and_taken_apart) {
    sequence_maker made;
    made.add_node("Neg", {"x"}, "n");
    made.add_node("Abs", {"x"}, "a");
    made.add_node("SequenceConstruct", {"x", "n"}, "s");
    made.add_node("SequenceInsert", {"s", "a", made.number(0)}, "s2");
    made.add_node("SequenceErase", {"s2", made.number(-2)}, "s3");  // without x
    made.add_node("Identity", {"s3"}, "s4");
    made.add_node("SequenceAt", {"s4", made.number(1)}, "y");
    EXPECT_THAT(answer(made), ElementsAre(-1, -2, -3, -4, -5, -6));
}

TEST(sequences, are_inserted_into_at_places_that_count_from_the_end) {
    for (const auto& [place, last] :
         {std::pair(-1, 1.0f), std::pair(1, 1.0f), std::pair(2, -1.0f), std::pair(-2, 1.0f)}) {
        sequence_maker made;
        made.add_node("Neg", {"x"}, "n");
        made.add_node("SequenceConstruct", {"n", "x"}, "s");
        made.add_node("SequenceInsert", {"s", "n", made.number(place)}, "s2");
        made.add_node("SequenceAt", {"s2", made.number(-1)}, "y");
        EXPECT_EQ(answer(made)[0], last) << place;
    }
}

TEST(sequences, are_joined_and_stacked) {
    for (const std::int64_t opset : {12, 17}) {
        for (const bool stacks : {false, true}) {
            sequence_maker made(opset);
            made.add_node("Neg", {"x"}, "n");
            made.add_node("SequenceEmpty", {}, "s0");
            made.add_node("SequenceInsert", {"s0", "x"}, "s1");
            made.add_node("SequenceInsert", {"s1", "n"}, "s2");
            onnx::NodeProto& join = made.add_node("ConcatFromSequence", {"s2"}, "y");
            onnx_maker::set(join, "axis", std::int64_t{1});
            if (stacks) onnx_maker::set(join, "new_axis", std::int64_t{1});
            const auto all = answers(made);
            if (stacks) {
                EXPECT_THAT(all.at(0).shape(), ElementsAre(2, 2, 3));
            } else {
                EXPECT_THAT(all.at(0).shape(), ElementsAre(2, 6));
            }
            EXPECT_THAT(all.at(0).values<float>(), ElementsAre(1, 2, 3, -1, -2, -3, 4, 5, 6, -4, -5, -6));
        }
    }
}

TEST(sequences, are_split_into_given_lengths) {
    for (const std::int64_t opset : {12, 17}) {
        sequence_maker made(opset);
        onnx::NodeProto& split = made.add_node("SplitToSequence", {"x", made.list({1, 2})}, "s");
        onnx_maker::set(split, "axis", std::int64_t{1});
        made.add_node("SequenceAt", {"s", made.number(1)}, "y");
        EXPECT_THAT(answer(made), ElementsAre(2, 3, 5, 6));
    }
}

TEST(sequences, of_the_places_of_an_axis_have_any_length) {
    for (const bool keeps : {false, true}) {
        sequence_maker made;
        onnx::NodeProto& split = made.add_node("SplitToSequence", {"x"}, "s");
        onnx_maker::set(split, "keepdims", std::int64_t{keeps});
        made.add_node("SequenceAt", {"s", made.number(-1)}, "last");
        onnx::NodeProto& length = made.add_node("SequenceLength", {"s"}, "length");
        static_cast<void>(length);
        onnx_maker::set(made.add_node("Cast", {"length"}, "real"), "to", std::int64_t{1});
        made.add_node("Mul", {"last", "real"}, "y");
        const auto all = answers(made);
        EXPECT_EQ(all.at(0).shape().size(), keeps ? 2u : 1u);
        EXPECT_THAT(all.at(0).values<float>(), ElementsAre(8, 10, 12));
    }
    sequence_maker whole;
    whole.add_node("SplitToSequence", {"x"}, "s");
    onnx_maker::set(whole.add_node("ConcatFromSequence", {"s"}, "y"), "axis", std::int64_t{0});
    EXPECT_THAT(answer(whole), ElementsAre(1, 2, 3, 4, 5, 6));

    sequence_maker beyond;
    beyond.add_node("SplitToSequence", {"x"}, "s");
    beyond.add_node("SequenceAt", {"s", beyond.number(2)}, "y");
    EXPECT_THROW(answers(beyond), error);
}

// The graphs of an If have names of their own.
TEST(sequences, take_places_by_the_constants_of_their_own_graph) {
    for (const bool then : {true, false}) {
        sequence_maker made;
        made.add_node("Neg", {"x"}, "negative");
        made.add_node("SequenceConstruct", {"x", "negative"}, "s");
        onnx::TensorProto& condition = *made.body().add_initializer();
        condition.set_name("condition");
        condition.set_data_type(9);
        condition.add_int32_data(then ? 1 : 0);
        onnx::NodeProto& either = made.add_node("If", {"condition"}, "y");
        const auto add_branch = [&](const std::string& name, const std::string& output) -> onnx::GraphProto& {
            onnx::AttributeProto& branch = *either.add_attribute();
            branch.set_name(name);
            branch.set_type(5);
            onnx::GraphProto& of = *branch.mutable_g();
            of.set_name(name);
            of.add_output()->set_name(output);
            return of;
        };
        const auto add_take = [](onnx::GraphProto& to, const std::string& output) {
            onnx::NodeProto& take = *to.add_node();
            take.set_op_type("SequenceAt");
            take.add_input("s");
            take.add_input("place");
            take.add_output(output);
        };
        onnx::GraphProto& first = add_branch("else_branch", "a");
        onnx::NodeProto& place = *first.add_node();
        place.set_op_type("Constant");
        place.add_output("place");
        onnx_maker::set(place, "value_int", std::int64_t{0});
        add_take(first, "a");
        onnx::GraphProto& second = add_branch("then_branch", "b");
        onnx::TensorProto& number = *second.add_initializer();
        number.set_name("place");
        number.set_data_type(7);
        number.add_int64_data(1);
        add_take(second, "b");
        EXPECT_THAT(answer(made), then ? ElementsAre(-1, -2, -3, -4, -5, -6) : ElementsAre(1, 2, 3, 4, 5, 6));

        // After the If the name is that of an input.
        sequence_maker after = made;
        after.body().mutable_node(2)->set_output(0, "either");
        after.add_node("Identity", {"either"}, "place");
        after.add_node("SequenceAt", {"s", "place"}, "y");
        expect_refused(after, "is not a constant");
    }
}

TEST(sequences, take_a_place_in_a_list_of_one) {
    sequence_maker made;
    onnx_maker::set(made.add_node("SplitToSequence", {"x"}, "s"), "keepdims", std::int64_t{0});
    made.add_node("SequenceAt", {"s", made.list({1})}, "y");
    EXPECT_THAT(answers(made).at(0).shape(), ElementsAre(3));
}

TEST(sequences, leave_no_place_to_the_caller_that_the_network_is_made_for) {
    sequence_maker made;
    made.add_node("Neg", {"x"}, "negative");
    made.add_node("SequenceConstruct", {"x", "negative"}, "s");
    const std::string place = made.number(0);
    made.add_node("SequenceAt", {"s", place}, "y");
    onnx::ValueInfoProto& input = *made.body().add_input();
    input.set_name(place);
    input.mutable_type()->mutable_tensor_type()->set_elem_type(7);
    input.mutable_type()->mutable_tensor_type()->mutable_shape();
    EXPECT_TRUE(made.read().body.defaults.empty());
    EXPECT_THAT(answer(made), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(sequences, that_are_outputs_become_outputs_for_their_elements) {
    sequence_maker made;
    made.add_node("Neg", {"x"}, "n");
    made.add_node("SequenceConstruct", {"n", "x"}, "y");
    made.give_sequence();
    const model read = made.read();
    ASSERT_EQ(read.body.outputs.size(), 2u);
    EXPECT_EQ(read.body.outputs[1].name, "y_1");
    EXPECT_THAT(answers(made).at(0).values<float>(), ElementsAre(-1, -2, -3, -4, -5, -6));
}

TEST(sequences, whose_length_is_not_in_the_file_are_refused) {
    sequence_maker pieces;
    pieces.add_node("SplitToSequence", {"x", pieces.number(2)}, "s");
    pieces.add_node("SequenceAt", {"s", pieces.number(0)}, "y");
    expect_refused(pieces, "splits into pieces of 2");

    sequence_maker grown;
    grown.add_node("SplitToSequence", {"x"}, "s");
    grown.add_node("SequenceInsert", {"s", "x"}, "t");
    grown.add_node("SequenceAt", {"t", grown.number(0)}, "y");
    expect_refused(grown, "takes a sequence whose length depends on a shape");

    sequence_maker place;
    place.add_node("SequenceConstruct", {"x"}, "s");
    place.add_node("SequenceAt", {"s", place.number(1)}, "y");
    expect_refused(place, "has the place 1 in a sequence with 1");

    // Each name of a chain has a sequence of its own.
    sequence_maker chain;
    chain.add_node("SequenceEmpty", {}, "s0");
    for (int i = 0; i < 3000; ++i)
        chain.add_node("SequenceInsert", {"s" + std::to_string(i), "x"}, "s" + std::to_string(i + 1));
    chain.add_node("SequenceAt", {"s3000", chain.number(0)}, "y");
    expect_refused(chain, "makes sequences of too many elements");

    sequence_maker taken;
    taken.add_node("SequenceConstruct", {"x"}, "s");
    taken.add_node("Relu", {"s"}, "y");
    expect_refused(taken, "node 'n1' (Relu): takes a sequence, which it does not support");

    sequence_maker given;
    given.add_node("Relu", {"x"}, "y");
    given.give_sequence();
    expect_refused(given, "is a sequence that no node makes");
}

}  // namespace sluice::nn::sequences_tests

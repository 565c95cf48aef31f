// SPDX-License-Identifier: Apache-2.0
// Messages of infer requests: what the fields may have, for every datatype. What a server refuses is in grpc_tests.cpp.
#include "serve/grpc/infer_message.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/read_grpc_message.hpp"
#include "fuzz/replay.hpp"
#include "sluice/serve/refusal.hpp"

namespace sluice::serve::grpc_message_tests {
namespace {

using ::testing::HasSubstr;

// A message as protobuf writes it, and what is read of it.
struct reading {
    std::string bytes;
    infer_message got = {};

    reading(io::dtype type, std::string message, const std::shared_ptr<request_budget>& budget = {})
        : bytes(std::move(message)) {
        const std::vector<nn::value_info> inputs{{"x", type, std::vector<nn::dimension>(1)}};
        const std::vector<nn::value_info> outputs{{"y", type, std::vector<nn::dimension>(1)}};
        const auto all = std::as_bytes(std::span(bytes));
        got = read_infer_message(all, read_infer_head(all), inputs, outputs, {}, {nullptr, budget}, false);
    }
    reading(io::dtype type, const inference::ModelInferRequest& message) : reading(type, message.SerializeAsString()) {}
};

// The codes of the texts of "x".
std::vector<std::int64_t> codes_in(const inference::ModelInferRequest& message) {
    const std::vector<nn::value_info> inputs{{"x", io::dtype::i64, std::vector<nn::dimension>(1), true}};
    const std::vector<nn::value_info> outputs{{"y", io::dtype::f32, std::vector<nn::dimension>(1)}};
    const std::vector<std::string> known = {"red", "green"};
    const std::string bytes = message.SerializeAsString();
    const auto all = std::as_bytes(std::span(bytes));
    const infer_message got =
        read_infer_message(all, read_infer_head(all), inputs, outputs, nn::text_codes(known), {}, false);
    std::vector<std::int64_t> made(got.inputs[0].bytes.size() / sizeof(std::int64_t));
    std::memcpy(made.data(), got.inputs[0].bytes.data(), got.inputs[0].bytes.size());
    return made;
}

void expect_refused(io::dtype type, const std::string& message, const std::string& why) {
    try {
        const reading ignored(type, message);
        FAIL() << "it is read";
    } catch (const refusal& got) {
        EXPECT_EQ(got.kind(), refusal_kind::bad_request);
        EXPECT_THAT(got.why(), HasSubstr(why));
    }
}

template <typename Fill>
inference::ModelInferRequest message_of(const std::string& datatype, const Fill& fill) {
    inference::ModelInferRequest made;
    auto& x = *made.add_inputs();
    x.set_name("x");
    x.set_datatype(datatype);
    x.add_shape(2);
    fill(*x.mutable_contents());
    return made;
}

template <typename T, typename Fill>
void expect_elements(io::dtype type, const std::string& datatype, std::vector<T> wanted, const Fill& fill) {
    const inference::ModelInferRequest message = message_of(datatype, fill);
    const reading its(type, message);
    const infer_message& got = its.got;
    ASSERT_EQ(got.inputs[0].bytes.size(), wanted.size() * sizeof(T)) << datatype;
    EXPECT_EQ(std::memcmp(got.inputs[0].bytes.data(), wanted.data(), wanted.size() * sizeof(T)), 0) << datatype;
}

using contents = inference::InferTensorContents;

TEST(grpc_message, texts_become_codes) {
    inference::ModelInferRequest message;
    inference::ModelInferRequest::InferInputTensor& x = *message.add_inputs();
    x.set_name("x");
    x.set_datatype("BYTES");
    x.add_shape(3);
    inference::ModelInferRequest raw = message;
    raw.add_raw_input_contents(std::string("\3\0\0\0red\0\0\0\0\5\0\0\0green", 20));
    EXPECT_THAT(codes_in(raw), ::testing::ElementsAre(0, -1, 1));
    const auto refused = [](const inference::ModelInferRequest& wrong, const std::string& why) {
        try {
            static_cast<void>(codes_in(wrong));
            ADD_FAILURE() << "it is read";
        } catch (const refusal& is) {
            EXPECT_THAT(is.what(), HasSubstr(why));
        }
    };
    raw.mutable_raw_input_contents(0)->pop_back();
    refused(raw, "the element 2 is cut off");
    for (const char* const each : {"green", "", "red"}) x.mutable_contents()->add_bytes_contents(each);
    EXPECT_THAT(codes_in(message), ::testing::ElementsAre(1, -1, 0));
    x.set_shape(0, 4);
    refused(message, "has more elements than the data");
    x.set_shape(0, 2);
    refused(message, "has 2 elements; the data has 3");
    x.set_shape(0, 3);
    x.mutable_contents()->add_int64_contents(1);
    refused(message, "needs bytes_contents");
    x.set_datatype("INT64");
    refused(message, "the datatype is INT64; the model takes BYTES");
}

TEST(grpc_message, each_datatype_has_its_field) {
    expect_elements<std::int8_t>(io::dtype::i8, "INT8", {-128, 127}, [](contents& c) {
        c.add_int_contents(-128);
        c.add_int_contents(127);
    });
    expect_elements<std::int16_t>(io::dtype::i16, "INT16", {-32768, 32767}, [](contents& c) {
        c.add_int_contents(-32768);
        c.add_int_contents(32767);
    });
    expect_elements<std::int32_t>(io::dtype::i32, "INT32", {-1, 1}, [](contents& c) {
        c.add_int_contents(-1);
        c.add_int_contents(1);
    });
    expect_elements<std::int64_t>(io::dtype::i64, "INT64", {-1, 1}, [](contents& c) {
        c.add_int64_contents(-1);
        c.add_int64_contents(1);
    });
    expect_elements<std::uint8_t>(io::dtype::u8, "UINT8", {0, 255}, [](contents& c) {
        c.add_uint_contents(0);
        c.add_uint_contents(255);
    });
    expect_elements<std::uint16_t>(io::dtype::u16, "UINT16", {0, 65535}, [](contents& c) {
        c.add_uint_contents(0);
        c.add_uint_contents(65535);
    });
    expect_elements<std::uint32_t>(io::dtype::u32, "UINT32", {0, 1}, [](contents& c) {
        c.add_uint_contents(0);
        c.add_uint_contents(1);
    });
    expect_elements<std::uint64_t>(io::dtype::u64, "UINT64", {0, 1}, [](contents& c) {
        c.add_uint64_contents(0);
        c.add_uint64_contents(1);
    });
    expect_elements<double>(io::dtype::f64, "FP64", {0.5, 2}, [](contents& c) {
        c.add_fp64_contents(0.5);
        c.add_fp64_contents(2);
    });
    expect_elements<std::uint8_t>(io::dtype::boolean, "BOOL", {1, 0}, [](contents& c) {
        c.add_bool_contents(true);
        c.add_bool_contents(false);
    });
}

TEST(grpc_message, elements_out_of_the_range_of_their_datatype_are_refused) {
    const auto refused = [](io::dtype type, const std::string& datatype, const auto& fill, const std::string& why) {
        expect_refused(type, message_of(datatype, fill).SerializeAsString(), why);
    };
    refused(io::dtype::i8, "INT8", [](contents& c) { c.add_int_contents(128); }, "128 is out of the range from -128");
    refused(io::dtype::i16, "INT16", [](contents& c) { c.add_int_contents(-32769); }, "to 32767");
    refused(io::dtype::u8, "UINT8", [](contents& c) { c.add_uint_contents(256); }, "from 0 to 255");
    refused(io::dtype::u16, "UINT16", [](contents& c) { c.add_uint_contents(65536); }, "from 0 to 65535");
    refused(io::dtype::f16, "FP16", [](contents& c) { c.add_fp32_contents(1); }, "send it in raw_input_contents");
    refused(io::dtype::bf16, "BF16", [](contents&) {}, "send it in raw_input_contents");
}

// The field `number` of type 2: a text, bytes or a message.
std::string field(int number, const std::string& bytes) {
    return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}

// FP32 elements are what they were on their way: no memory is taken for them.
TEST(grpc_message, elements_that_lie_as_a_tensor_has_them_stay_where_they_are) {
    const auto message = message_of("FP32", [](contents& c) {
        c.add_fp32_contents(1);
        c.add_fp32_contents(2);
    });
    const reading its(io::dtype::f32, message);
    const std::byte* const begin = its.got.inputs[0].bytes.data();
    EXPECT_GE(begin, std::as_bytes(std::span(its.bytes)).data());
    EXPECT_LT(begin, std::as_bytes(std::span(its.bytes)).data() + its.bytes.size());
    ASSERT_EQ(its.got.inputs[0].bytes.size(), 8U);
}

// Each number on its own, in two parts of the contents: protobuf reads them as one list, and so do we.
TEST(grpc_message, elements_in_parts_are_gathered) {
    const float one = 1, two = 2, three = 3;
    const auto raw = [](const float& value) { return std::string(reinterpret_cast<const char*>(&value), 4); };
    const std::string tensor = field(1, "x") + field(2, "FP32") + field(3, "\3") + field(5, "\x35" + raw(one)) +
                               field(5, field(6, raw(two) + raw(three)));
    const reading its(io::dtype::f32, field(5, tensor));
    ASSERT_EQ(its.got.inputs[0].bytes.size(), 12U);
    float all[3] = {};
    std::memcpy(all, its.got.inputs[0].bytes.data(), 12);
    EXPECT_THAT(all, ::testing::ElementsAre(1, 2, 3));
}

// A byte each on its way, and eight each in a tensor.
TEST(grpc_message, the_memory_of_elements_counts) {
    const auto budget = std::make_shared<request_budget>(1000);
    const auto message = [](int count) {
        return message_of("INT64",
                          [&](contents& c) {
                              for (int i = 0; i < count; ++i) c.add_int64_contents(1);
                          })
            .SerializeAsString();
    };
    {
        const reading its(io::dtype::i64, message(100), budget);
        EXPECT_EQ(budget->bytes(), 800U);
    }
    EXPECT_EQ(budget->bytes(), 0U);
    try {
        const reading ignored(io::dtype::i64, message(126), budget);
        FAIL() << "it is read";
    } catch (const refusal& got) {
        EXPECT_EQ(got.kind(), refusal_kind::unavailable);
    }
    EXPECT_EQ(budget->bytes(), 0U);
}

TEST(grpc_message, what_is_no_message_is_refused) {
    using namespace std::string_literals;
    const std::string is_none = "the message is no ModelInferRequest: ";
    const auto refused = [&](const std::string& message, const std::string& why) {
        SCOPED_TRACE(why);
        expect_refused(io::dtype::f32, message, is_none + why);
        inference::ModelInferRequest ignored;
        EXPECT_FALSE(ignored.ParseFromString(message));  // protobuf says so too
    };
    refused("\x0a\x05" + "m"s, "a length is beyond its end");
    refused("\x0a"s, "it ends in a length");
    refused("\x0a\xff\xff\xff\xff\x0f"s, "a length is beyond its end");
    refused("\x0a\xff\xff\xff\xff\xff"s, "a length is beyond its end");
    refused("\x08\xff"s, "it ends in a number");
    refused("\x08"s + std::string(10, '\xff') + "\1", "a number is too long");
    refused("\xff"s, "it ends in the number of a field");
    refused("\xff\xff\xff\xff\xff\1"s, "the number of a field is too long");
    refused("\0\0"s, "a field has no number");
    refused("\x0f"s, "a field has no number");
    refused("\x0d\1\1"s, "it ends in a number");
    refused("\x09\1\1"s, "it ends in a number");
    refused("\x7b"s, "it ends in a group");
    refused("\x7b\x84\1"s, "a group does not end as it began");
    refused("\x7c"s, "a field has no number");
    refused(std::string(101, '\x7b') + std::string(101, '\x7c'), "it is too deep");
    for (const std::string& text :
         {"\x80"s, "\xc0\x80"s, "\xe0\x80\x80"s, "\xed\xa0\x80"s, "\xf4\x90\x80\x80"s, "\xf5"s, "\xc3"s})
        refused(field(3, text), "a text is not UTF-8");
    refused(field(5, field(5, field(6, "123"))), "it ends in a number");
    refused(field(5, field(5, field(2, "\x80"))), "it ends in a number");
}

TEST(grpc_message, what_is_unknown_in_a_message_is_passed_over) {
    auto message = message_of("FP32", [](contents& c) {
        c.add_fp32_contents(1);
        c.add_fp32_contents(2);
    });
    message.set_id("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
    std::string bytes = message.SerializeAsString();
    bytes += std::string(100, '\x7b') + std::string(100, '\x7c');  // groups in groups
    bytes += "\x78\xff\xff\xff\xff\xff\xff\xff\xff\xff\1";
    bytes += field(14, "any") + "\x0d" + "1234" + "\x09" + "12345678";  // the last two: model_name, of other types
    inference::ModelInferRequest parsed;
    ASSERT_TRUE(parsed.ParseFromString(bytes));
    const reading its(io::dtype::f32, bytes);
    EXPECT_EQ(its.got.inputs[0].bytes.size(), 8U);
    EXPECT_EQ(read_infer_head(std::as_bytes(std::span(its.bytes))).id, message.id());
}

TEST(grpc_message, of_what_is_there_twice_the_last_holds) {
    auto message = message_of("FP32", [](contents& c) { c.add_fp32_contents(1); });
    (*message.mutable_parameters())["priority"].set_int64_param(1);
    inference::ModelInferRequest later;
    (*later.mutable_parameters())["priority"].set_uint64_param(2);
    later.set_id("later");
    const std::string first = field(4, field(1, "priority") + field(2, field(3, "one")));
    const reading its(io::dtype::f32, first + message.SerializeAsString() + later.SerializeAsString());
    EXPECT_EQ(its.got.priority, 2U);
    EXPECT_EQ(read_infer_head(std::as_bytes(std::span(its.bytes))).id, "later");
}

// Parts of a right message changed, as the fuzzer does it: protobuf is the measure.
TEST(grpc_message, changed_messages_are_read_as_protobuf_reads_them) {
    std::mt19937 random(1);
    inference::ModelInferRequest message;
    for (const char* name : {"x", "y"}) {
        auto& tensor = *message.add_inputs();
        tensor.set_name(name);
        tensor.set_datatype(*name == 'x' ? "FP32" : "INT8");
        tensor.add_shape(1);
        tensor.add_shape(2);
        for (int i = 1; i < 3; ++i) {
            if (*name == 'x')
                tensor.mutable_contents()->add_fp32_contents(static_cast<float>(i));
            else
                tensor.mutable_contents()->add_int_contents(-i);
        }
    }
    message.set_id("an id");
    (*message.mutable_parameters())["timeout"].set_int64_param(1000);
    message.add_outputs()->set_name("z");
    const std::string right = std::string(1, '\0') + message.SerializeAsString();
    for (int round = 0; round < 100'000; ++round) {
        std::string changed = right;
        for (unsigned i = 0; i <= random() % 3; ++i) {
            const std::size_t at = random() % changed.size();
            switch (random() % 4) {
                case 0: changed[at] = static_cast<char>(random()); break;
                case 1: changed.erase(at, 1 + random() % 4); break;
                case 2: changed.insert(at, changed.substr(random() % changed.size(), random() % 24)); break;
                default: changed[at] = static_cast<char>(changed[at] ^ (1U << random() % 8)); break;
            }
            if (changed.empty()) changed = right;
        }
        fuzz::read_grpc_message(std::as_bytes(std::span(changed)));  // aborts where they differ
    }
}

TEST(grpc_message, files_of_the_fuzzer_are_read_or_refused) {
    sluice::fuzz::replay("fuzz/corpus/grpc_message", fuzz::read_grpc_message);
}

}  // namespace
}  // namespace sluice::serve::grpc_message_tests

// SPDX-License-Identifier: Apache-2.0
#include "serve/http/infer_body.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "fuzz/read_infer_body.hpp"
#include "fuzz/replay.hpp"
#include "serve/support/fake_engine.hpp"
#include "sluice/serve/refusal.hpp"
#include "sluice/serve/request_budget.hpp"

namespace sluice::serve::infer_body_tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

nn::value_info value(std::string name, io::dtype type) {
    return {std::move(name), type, std::vector{testing::named("batch"), testing::of(2)}};
}

// Takes x and y; gives z and w.
struct reading {
    explicit reading(std::string text, std::optional<std::size_t> json_bytes = {}, io::dtype type = io::dtype::f32)
        : reading(std::move(text), json_bytes, value("x", type)) {}
    reading(std::string text, std::optional<std::size_t> json_bytes, nn::value_info input) : body(std::move(text)) {
        const std::vector<std::string> known = {"red", "green"};
        infer_body_reader(1 << 20).read(body, json_bytes, {std::move(input)},
                                        {value("z", io::dtype::f32), value("w", io::dtype::f32)}, nn::text_codes(known),
                                        got);
    }
    template <typename T>
    std::vector<T> values(std::size_t input = 0) const {
        std::vector<T> all(got.inputs[input].bytes.size() / sizeof(T));
        std::memcpy(all.data(), got.inputs[input].bytes.data(), all.size() * sizeof(T));
        return all;
    }

    std::string body;
    infer_body got;
};

std::string with_x(const std::string& members) { return R"({"inputs":[{"name":"x",)" + members + "}]}"; }

TEST(infer_body, flat_and_nested_data_are_the_same) {
    const reading flat(with_x(R"("datatype":"FP32","shape":[2,2],"data":[1,2.5,-3,4e2])"));
    EXPECT_THAT(flat.values<float>(), ElementsAre(1, 2.5f, -3, 400));
    const reading nested(with_x(R"("datatype":"FP32","shape":[2,2],"data":[[1,2.5],[-3,4e2]])"));
    EXPECT_THAT(nested.values<float>(), ElementsAre(1, 2.5f, -3, 400));
    EXPECT_EQ(nested.got.outputs.size(), 2U);
    EXPECT_FALSE(nested.got.outputs.front().is_binary);
}

// "x" is text.
reading texts(const std::string& members, const std::string& binary = {}) {
    nn::value_info input = value("x", io::dtype::i64);
    input.is_text = true;
    const std::string json = with_x(members);
    return {json + binary, binary.empty() ? std::nullopt : std::optional(json.size()), input};
}

void expect_texts_refused(const std::string& members, const std::string& why, const std::string& binary = {}) {
    try {
        static_cast<void>(texts(members, binary));
        ADD_FAILURE() << "is read";
    } catch (const refusal& refused) {
        EXPECT_THAT(refused.what(), HasSubstr(why));
    }
}

TEST(infer_body, texts_become_codes) {
    const std::string head = R"("datatype":"BYTES","shape":[1,2])";
    EXPECT_THAT(texts(head + R"(,"data":["green","pink"])").values<std::int64_t>(), ElementsAre(1, -1));
    EXPECT_THAT(texts(head + R"(,"data":[["red","red"]])").values<std::int64_t>(), ElementsAre(0, 0));
    const std::string binary("\3\0\0\0red\0\0\0\0", 11), size = R"(,"parameters":{"binary_data_size":11})";
    EXPECT_THAT(texts(head + size, binary).values<std::int64_t>(), ElementsAre(0, -1));
    expect_texts_refused(head + R"(,"data":["green",1])", "is not a text");
    expect_texts_refused(head + R"(,"data":["green"])", "has 2 elements; the data has 1");
    expect_texts_refused(R"("datatype":"INT64","shape":[1,2],"data":[0,1])",
                         "the datatype is INT64; the model takes BYTES");
    expect_texts_refused(head + size, "the element 1 is cut off", std::string("\3\0\0\0red\1\0\0\0", 11));
    expect_texts_refused(head + size, "the element 0 is cut off", std::string("\xff\xff\xff\xffred\0\0\0\0", 11));
    expect_texts_refused(R"("datatype":"BYTES","shape":[1,1])" + size, "the data has more", binary);
    expect_texts_refused(R"("datatype":"BYTES","shape":[1,4])" + size, "has more elements than the data", binary);
    expect_texts_refused(R"("datatype":"BYTES","shape":[4611686018427387904,4])" + size, "is too large", binary);
}

TEST(infer_body, members_come_in_any_order) {
    const reading got(
        R"({"outputs":[{"name":"w"}],"inputs":[{"data":[7,8],"shape":[1,2],"datatype":"FP32","name":"x"}],)"
        R"("id":"\u00e4\"","parameters":{"timeout":250}})");
    EXPECT_THAT(got.values<float>(), ElementsAre(7, 8));
    EXPECT_EQ(got.got.id, "ä\"");
    EXPECT_EQ(got.got.timeout, std::chrono::microseconds(250));
    ASSERT_EQ(got.got.outputs.size(), 1U);
    EXPECT_EQ(got.got.outputs[0].index, 1U);
}

TEST(infer_body, every_type_has_its_numbers) {
    const auto read = [](const char* type, io::dtype as, const char* data) {
        return reading(with_x(R"("datatype":")" + std::string(type) + R"(","shape":[2],"data":)" + data), {}, as);
    };
    EXPECT_THAT(read("INT8", io::dtype::i8, "[-128,127]").values<std::int8_t>(), ElementsAre(-128, 127));
    EXPECT_THAT(read("UINT8", io::dtype::u8, "[0,255]").values<std::uint8_t>(), ElementsAre(0, 255));
    EXPECT_THAT(read("INT16", io::dtype::i16, "[-32768,32767]").values<std::int16_t>(), ElementsAre(-32768, 32767));
    EXPECT_THAT(read("UINT32", io::dtype::u32, "[0,4294967295]").values<std::uint32_t>(), ElementsAre(0, 4294967295U));
    EXPECT_THAT(read("INT64", io::dtype::i64, "[-9223372036854775808,9223372036854775807]").values<std::int64_t>(),
                ElementsAre(INT64_MIN, INT64_MAX));
    EXPECT_THAT(read("UINT64", io::dtype::u64, "[0,18446744073709551615]").values<std::uint64_t>(),
                ElementsAre(0U, UINT64_MAX));
    EXPECT_THAT(read("FP64", io::dtype::f64, "[1e300,-2]").values<double>(), ElementsAre(1e300, -2));
    EXPECT_THAT(read("FP16", io::dtype::f16, "[1,65504]").values<std::uint16_t>(), ElementsAre(0x3c00, 0x7bff));
    EXPECT_THAT(read("BF16", io::dtype::bf16, "[1,-2]").values<std::uint16_t>(), ElementsAre(0x3f80, 0xc000));
    EXPECT_THAT(read("BOOL", io::dtype::boolean, "[true,false]").values<std::uint8_t>(), ElementsAre(1, 0));
}

TEST(infer_body, numbers_are_rounded_once) {
    const auto read = [](const char* type, io::dtype as, const char* data) {
        return reading(with_x(R"("datatype":")" + std::string(type) + R"(","shape":[2],"data":)" + data), {}, as);
    };
    // Above and below the middle between two halves, by less than a float has.
    EXPECT_THAT(
        read("FP16", io::dtype::f16, "[1.00048828125090949470177,-1.00146484374909050529823]").values<std::uint16_t>(),
        ElementsAre(0x3c01, 0xbc01));
    EXPECT_THAT(read("FP16", io::dtype::f16, "[1.00048828125,2.98023223876955e-8]").values<std::uint16_t>(),
                ElementsAre(0x3c00, 0x0001));
    EXPECT_THAT(read("BF16", io::dtype::bf16, "[1.00390625000090949470177,2155872257]").values<std::uint16_t>(),
                ElementsAre(0x3f81, 0x4f01));
    EXPECT_THAT(read("BF16", io::dtype::bf16, "[9259400833873739777,-1e-60]").values<std::uint16_t>(),
                ElementsAre(0x5f01, 0x8000));
    EXPECT_THAT(read("FP32", io::dtype::f32, "[18014399583223809,-18014399583223809]").values<float>(),
                ElementsAre(18014400656965632.F, -18014400656965632.F));
}

// Of one input of numbers, which count as they are decoded.
TEST(infer_body, decoded_numbers_count_for_the_memory_of_requests) {
    const auto budget = std::make_shared<request_budget>(100'000);
    infer_body_reader reader(1 << 20);
    infer_body got;
    const auto read = [&](std::size_t count) {
        std::string zeros = "0";
        for (std::size_t i = 1; i < count; ++i) zeros += ",0";
        std::string body =
            with_x(R"("datatype":"FP64","shape":[)" + std::to_string(count) + R"(],"data":[)" + zeros + "]");
        reader.read(body, {}, {value("x", io::dtype::f64)}, {value("z", io::dtype::f32)}, {}, got,
                    {.regions = {}, .budget = budget});
    };
    read(5000);
    EXPECT_GE(budget->bytes(), 40'000U);
    read(12'000);  // where there is no room for twice of what there is
    EXPECT_GE(budget->bytes(), 96'000U);
    try {
        read(13'000);
        ADD_FAILURE() << "is read";
    } catch (const refusal& why) {
        EXPECT_EQ(why.kind(), refusal_kind::unavailable);
    }
    got.clear();
    EXPECT_EQ(budget->bytes(), 0U);
}

TEST(infer_body, memory_for_long_documents_is_not_kept_also_where_they_are_refused) {
    infer_body_reader reader(16 << 20);
    infer_body got;
    for (const char* const wrong : {"", "x", R"(,"unknown":1)"}) {
        std::string body = with_x(R"("datatype":"FP32","shape":[1,2],"data":[1,2])");
        body.insert(body.size() - 1, wrong);
        body += std::string(4 << 20, ' ');
        const auto read = [&] { reader.read(body, {}, {value("x", io::dtype::f32)}, {}, {}, got); };
        if (*wrong == 0)
            read();
        else
            EXPECT_THROW(read(), refusal) << wrong;
        EXPECT_LE(reader.kept_json_bytes(), 1U << 20) << wrong;
    }
}

TEST(infer_body, binary_data_follows_the_json) {
    const std::string json = R"({"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],)"
                             R"("parameters":{"binary_data_size":8}}],"parameters":{"binary_data_output":true},)"
                             R"("outputs":[{"name":"z"},{"name":"w","parameters":{"binary_data":false}}]})";
    const float numbers[] = {1.5f, -2};
    const reading got(json + std::string(reinterpret_cast<const char*>(numbers), 8), json.size());
    EXPECT_THAT(got.values<float>(), ElementsAre(1.5f, -2));
    EXPECT_TRUE(got.got.outputs[0].is_binary);
    EXPECT_FALSE(got.got.outputs[1].is_binary);
}

struct wrong_body {
    const char* what;
    std::string text;
    const char* says;
    std::optional<std::size_t> json_bytes = {};
};
class wrong_requests : public ::testing::TestWithParam<wrong_body> {};

TEST_P(wrong_requests, are_refused_with_the_place) {
    try {
        const reading got(GetParam().text, GetParam().json_bytes);
        FAIL() << "accepted: " << GetParam().text.substr(0, 200);
    } catch (const refusal& why) {
        EXPECT_EQ(why.kind(), refusal_kind::bad_request);
        EXPECT_THAT(why.what(), HasSubstr(GetParam().says));
    }
}

const std::string x = R"("datatype":"FP32","shape":[1,2])";
const std::string binary_x = with_x(x + R"(,"parameters":{"binary_data_size":8})");

INSTANTIATE_TEST_SUITE_P(
    form, wrong_requests,
    ::testing::Values(wrong_body{"empty", "", "no JSON"}, wrong_body{"no_json", "hello", "no JSON"},
                      wrong_body{"cut", R"({"inputs":[)", "no JSON"}, wrong_body{"array", "[]", "not a JSON object"},
                      wrong_body{"two", "{}{}", "no JSON"}, wrong_body{"zero_byte", std::string("{}\0", 3), "no JSON"},
                      wrong_body{"utf8", "{\"id\":\"\xff\"}", "no JSON"},
                      wrong_body{"nan", with_x(x + R"(,"data":[NaN,1])"), "no JSON"},
                      wrong_body{"infinity", with_x(x + R"(,"data":[1e999,1])"), "no JSON"},
                      wrong_body{"deep", std::string(100'000, '[') + std::string(100'000, ']'), "no JSON"},
                      wrong_body{"deep_objects",
                                 [] {
                                     std::string text;
                                     for (int i = 0; i < 1000; ++i) text += R"({"parameters":)";
                                     return text + "1" + std::string(1000, '}');
                                 }(),
                                 "no JSON"},
                      wrong_body{"long", R"({"id":")" + std::string(2 << 20, 'a') + "\"}", "more than 1048576"},
                      wrong_body{"json_bytes", "{}", "Inference-Header-Content-Length is 3", 3},
                      wrong_body{"json_bytes_0", "{}", "raw binary data without JSON", 0},
                      wrong_body{"json_bytes_short", "{}", "no JSON", 1}),
    [](const auto& each) { return each.param.what; });

INSTANTIATE_TEST_SUITE_P(
    members, wrong_requests,
    ::testing::Values(
        wrong_body{"no_inputs", "{}", "no 'inputs'"},
        wrong_body{"unknown_key", R"({"input":[]})", "the unknown key 'input'; the keys are id, model_name"},
        wrong_body{"twice", R"({"id":"a","id":"b"})", "the key 'id' twice"},
        wrong_body{"id_number", R"({"id":1})", "'id' is not a text"},
        wrong_body{"inputs_object", R"({"inputs":{}})", "'inputs' is not an array"},
        wrong_body{"input_number", R"({"inputs":[1]})", "'inputs' is not an object"},
        wrong_body{"lacks_input", R"({"inputs":[]})", "lacks input 'x'"},
        wrong_body{"unknown_input", R"({"inputs":[{"name":"y"}]})", "no input 'y'; it has 'x'"},
        wrong_body{"no_name", R"({"inputs":[{}]})", "no 'name'"},
        wrong_body{"no_type", with_x(R"("shape":[1,2],"data":[1,2])"), "no 'datatype'"},
        wrong_body{"no_shape", with_x(R"("datatype":"FP32","data":[1,2])"), "no 'shape'"},
        wrong_body{"no_data", with_x(x), "neither 'data' nor"},
        wrong_body{"bytes", with_x(R"("datatype":"BYTES","shape":[1],"data":["a"])"), "'BYTES' is not supported"},
        wrong_body{"input_key", with_x(x + R"(,"dat":[1,2])"), "the unknown key 'dat'"},
        wrong_body{"input_key_twice", with_x(x + R"(,"name":"x","data":[1,2])"), "the key 'name' twice"},
        wrong_body{"input_twice",
                   R"({"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[1]},)"
                   R"({"name":"x","datatype":"FP32","shape":[1],"data":[1]}]})",
                   "is there twice"},
        wrong_body{"unknown_output", R"({"outputs":[{"name":"q"}]})", "no output 'q'; it has 'z', 'w'"},
        wrong_body{"output_twice", R"({"outputs":[{"name":"z"},{"name":"z"}]})", "output 'z' is there twice"},
        wrong_body{"classification", R"({"outputs":[{"name":"z","parameters":{"classification":2}}]})",
                   "'classification', which this server does not support"},
        wrong_body{"sequence", R"({"inputs":[],"parameters":{"sequence_id":1}})", "the model has none"},
        wrong_body{"sequence_name", R"({"inputs":[],"parameters":{"sequence_id":"a"}})", "the model has none"},
        wrong_body{"sequence_end", R"({"inputs":[],"parameters":{"sequence_end":true}})", "need a sequence_id"},
        wrong_body{"sequence_negative", R"({"parameters":{"sequence_id":-1}})", "'sequence_id' is not an integer"},
        wrong_body{"sequence_object", R"({"parameters":{"sequence_id":{}}})", "'sequence_id' is not an integer"},
        wrong_body{"sequence_flag", R"({"parameters":{"sequence_start":"yes"}})", "'sequence_start' is not true"},
        wrong_body{"triton_parameter", R"({"parameters":{"triton_color":1}})", "'triton_color', which this server"},
        wrong_body{"headers", R"({"parameters":{"headers":{"a":"b"}}})", "does not support"},
        wrong_body{"final_response", R"({"parameters":{"triton_enable_empty_final_response":1}})", "true or false"},
        wrong_body{"timeout", R"({"parameters":{"timeout":-1}})", "'timeout' is not a number"},
        wrong_body{"long_timeout", R"({"parameters":{"timeout":18446744073709551615}})", "longer than an hour"},
        wrong_body{"shared_memory", with_x(x + R"(,"parameters":{"shared_memory_region":"a"})"), "shares no memory"},
        wrong_body{"many_keys",
                   [] {
                       std::string text = R"({"parameters":{)";
                       for (int i = 0; i < 100; ++i) text += '"' + std::to_string(i) + "\":1,";
                       return text + R"("a":1}})";
                   }(),
                   "too many keys"}),
    [](const auto& each) { return each.param.what; });

// What clients of other servers send, and what is for a model's own code.
TEST(infer_body, parameters_that_say_nothing_or_are_custom_are_passed_over) {
    const reading got(
        R"({"parameters":{"color":{"deep":[1,2]},"sequence_id":0,"sequence_start":false,"sequence_end":false,)"
        R"("priority":0,"timeout":0,"triton_enable_empty_final_response":true},)"
        R"("inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"data":[1,2],)"
        R"("parameters":{"unit":"m"}}],)"
        R"("outputs":[{"name":"z","parameters":{"classification":0,"unit":null}}]})");
    ASSERT_EQ(got.got.outputs.size(), 1U);
    EXPECT_FALSE(got.got.timeout);
}

INSTANTIATE_TEST_SUITE_P(
    data, wrong_requests,
    ::testing::Values(
        wrong_body{"few", with_x(x + R"(,"data":[1])"), "has 2 elements; the data has 1"},
        wrong_body{"many", with_x(x + R"(,"data":[1,2,3])"), "has 2 elements; the data has more"},
        wrong_body{"text", with_x(x + R"(,"data":["1",2])"), "no FP32"},
        wrong_body{"null", with_x(x + R"(,"data":[null,2])"), "no FP32"},
        wrong_body{"bool", with_x(x + R"(,"data":[true,2])"), "no FP32"},
        wrong_body{"too_large", with_x(x + R"(,"data":[1e39,2])"), "too large"},
        wrong_body{"half", with_x(R"("datatype":"FP16","shape":[1],"data":[65536])"), "too large"},
        wrong_body{"int8", with_x(R"("datatype":"INT8","shape":[1],"data":[128])"), "no INT8"},
        wrong_body{"unsigned", with_x(R"("datatype":"UINT32","shape":[1],"data":[-1])"), "no UINT32"},
        wrong_body{"fraction", with_x(R"("datatype":"INT32","shape":[1],"data":[1.5])"), "no INT32"},
        wrong_body{"number_as_bool", with_x(R"("datatype":"BOOL","shape":[1],"data":[1])"), "true and false"},
        wrong_body{"ragged", with_x(R"("datatype":"FP32","shape":[2,2],"data":[[1],[2,3]])"), "not nested as"},
        wrong_body{"half_nested", with_x(R"("datatype":"FP32","shape":[2,1],"data":[[1],2])"), "not nested as"},
        wrong_body{"more_rows", with_x(R"("datatype":"FP32","shape":[1,1],"data":[[1],[2]])"), "not nested as"},
        wrong_body{"negative_length", with_x(R"("datatype":"FP32","shape":[-1],"data":[1])"),
                   "an integer of at least 0"},
        wrong_body{"fraction_length", with_x(R"("datatype":"FP32","shape":[1.0],"data":[1])"),
                   "an integer of at least 0"},
        wrong_body{"overflow", with_x(R"("datatype":"FP32","shape":[4294967296,4294967296,2],"data":[1])"),
                   "too large"},
        wrong_body{"byte_overflow", with_x(R"("datatype":"FP32","shape":[9223372036854775807],"data":[1])"),
                   "too large"},
        wrong_body{"lying_shape", with_x(R"("datatype":"FP32","shape":[1000000000000],"data":[1])"), "the data has 1"},
        wrong_body{"dimensions", with_x(R"("datatype":"FP32","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"data":[1])"),
                   "more than 16 dimensions"}),
    [](const auto& each) { return each.param.what; });

INSTANTIATE_TEST_SUITE_P(
    binary, wrong_requests,
    ::testing::Values(
        wrong_body{"without_length", binary_x, "no Inference-Header-Content-Length"},
        wrong_body{"short", binary_x + "1234567", "has 8 bytes of binary data; the body has 7 left", binary_x.size()},
        wrong_body{"longer", binary_x + "123456789", "the inputs take 8", binary_x.size()},
        wrong_body{"both", with_x(x + R"(,"data":[1,2],"parameters":{"binary_data_size":8})"), "both 'data' and"},
        wrong_body{"negative", with_x(x + R"(,"parameters":{"binary_data_size":-1})"), "not a number of bytes"},
        wrong_body{"huge", with_x(x + R"(,"parameters":{"binary_data_size":18446744073709551615})") + "a",
                   "the body has 1 left",
                   with_x(x + R"(,"parameters":{"binary_data_size":18446744073709551615})").size()}),
    [](const auto& each) { return each.param.what; });

TEST(infer_body, one_reader_reads_right_bodies_after_wrong_ones) {
    infer_body_reader reader(1 << 20);
    infer_body to;
    const std::vector<nn::value_info> inputs{value("x", io::dtype::f32)}, outputs{value("z", io::dtype::f32)};
    std::string deep(200'000, '['), wrong = with_x(x + R"(,"data":[1,"a"])"), right = with_x(x + R"(,"data":[1,2])");
    for (int i = 0; i < 3; ++i) {
        EXPECT_THROW(reader.read(deep, {}, inputs, outputs, {}, to), refusal);
        EXPECT_THROW(reader.read(wrong, {}, inputs, outputs, {}, to), refusal);
        reader.read(right, {}, inputs, outputs, {}, to);
        EXPECT_EQ(to.inputs.front().bytes.size(), 8U);
    }
}

TEST(infer_body, files_of_the_fuzzer_are_read_or_refused) {
    sluice::fuzz::replay("fuzz/corpus/infer_body", fuzz::read_infer_body);
}

}  // namespace
}  // namespace sluice::serve::infer_body_tests

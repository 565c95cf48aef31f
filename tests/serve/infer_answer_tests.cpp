// SPDX-License-Identifier: Apache-2.0
// The body of an answer: what each type of element looks like in JSON, and where binary data begins.
#include "serve/http/infer_answer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>

#include "serve/support/fake_engine.hpp"
#include "sluice/base/half.hpp"
#include "sluice/serve/refusal.hpp"

namespace sluice::serve::infer_answer_tests {
namespace {

using ::testing::HasSubstr;

// Gives y and z, of one type; is never run but in the trial, where it fails.
class typed_model final : public testing::fake_model {
public:
    explicit typed_model(io::dtype type, bool is_text = false)
        : outputs_{{"y", type, std::vector{testing::of(2)}, is_text},
                   {"z", type, std::vector{testing::of(2)}, is_text}},
          texts_(std::vector<std::string>{"plain", "\"q\"", "", std::string(1 << 20, 'l')}) {}
    const std::vector<nn::value_info>& outputs() const noexcept override { return outputs_; }
    const nn::text_codes& texts() const noexcept override { return texts_; }
    std::vector<nn::any_tensor> run(std::vector<nn::any_tensor>) const override {
        throw error(errc::unsupported, "this model is never run");
    }

private:
    std::vector<nn::value_info> outputs_;
    nn::text_codes texts_;
};

struct written {
    std::string body;
    std::optional<std::size_t> json_bytes;
};

// The answer with y, and also with z where its bytes are given; z is binary.
template <typename T>
written answer_of(io::dtype type, const std::vector<T>& y, const std::vector<T>& z = {}, const std::string& id = {},
                  bool is_text = false) {
    const auto model = served_model::make("m", 3, std::make_shared<typed_model>(type, is_text), {});
    const auto view = [&](const std::vector<T>& values) {
        return tensor_view{type, tensor_shape(std::vector{values.size()}), std::as_bytes(std::span(values))};
    };
    const std::vector<tensor_view> outputs{view(y), view(z)};
    infer_body request;
    request.has_id = !id.empty();
    request.id = id;
    request.outputs.push_back({0, false, {}});
    if (!z.empty()) request.outputs.push_back({1, true, {}});
    written made;
    made.json_bytes = write_infer_answer(made.body, *model, request, outputs);
    return made;
}

template <typename T>
std::string data_of(io::dtype type, const std::vector<T>& values) {
    const std::string body = answer_of(type, values).body;
    const std::string before = R"("data":[)";
    const auto begin = body.find(before) + before.size();
    return body.substr(begin, body.find(']', begin) - begin);
}

TEST(infer_answer, codes_become_texts) {
    const written made = answer_of<std::int64_t>(io::dtype::i64, {1, 0, 2}, {0, 2}, {}, true);
    ASSERT_TRUE(made.json_bytes);
    EXPECT_THAT(made.body, HasSubstr(R"("datatype":"BYTES","shape":[3],"data":["\"q\"","plain",""]})"));
    EXPECT_THAT(made.body, HasSubstr(R"("binary_data_size":13)"));
    EXPECT_EQ(made.body.substr(*made.json_bytes), std::string("\5\0\0\0plain\0\0\0\0", 13));
}

// A code is 8 bytes, whatever its text is.
TEST(infer_answer, has_a_bound_for_its_texts) {
    const std::vector<std::int64_t> long_ones(300, 3);
    EXPECT_THROW(answer_of<std::int64_t>(io::dtype::i64, long_ones, {}, {}, true), refusal);
}

TEST(infer_answer, has_the_numbers_of_each_type) {
    using enum io::dtype;
    EXPECT_EQ(data_of<float>(f32, {0.1f, -3e20f}), "0.1,-3e+20");
    EXPECT_EQ(data_of<double>(f64, {0.1, 1e300}), "0.1,1e+300");
    EXPECT_EQ(data_of<half>(f16, {half(0.5f), half(65504.0f)}), "0.5,65504");
    EXPECT_EQ(data_of<bfloat16>(bf16, {bfloat16(1.0f), bfloat16(-2.0f)}), "1,-2");
    EXPECT_EQ(data_of<std::int8_t>(i8, {-128, 65}), "-128,65");
    EXPECT_EQ(data_of<std::uint8_t>(u8, {0, 255}), "0,255");
    EXPECT_EQ(data_of<std::int16_t>(i16, {-32768, 1}), "-32768,1");
    EXPECT_EQ(data_of<std::uint16_t>(u16, {0, 65535}), "0,65535");
    EXPECT_EQ(data_of<std::int32_t>(i32, {-2147483647 - 1}), "-2147483648");
    EXPECT_EQ(data_of<std::uint32_t>(u32, {4294967295U}), "4294967295");
    EXPECT_EQ(data_of<std::int64_t>(i64, {INT64_MIN}), "-9223372036854775808");
    EXPECT_EQ(data_of<std::uint64_t>(u64, {UINT64_MAX}), "18446744073709551615");
    EXPECT_EQ(data_of<std::uint8_t>(boolean, {1, 0}), "true,false");
    EXPECT_EQ(data_of<float>(f32, {}), "");
}

TEST(infer_answer, keeps_the_sign_of_zero) {
    using enum io::dtype;
    EXPECT_EQ(data_of<float>(f32, {-0.0f, 0.0f, -1.0f}), "-0.0,0,-1");
    EXPECT_EQ(data_of<double>(f64, {-0.0, 0.0}), "-0.0,0");
    EXPECT_EQ(data_of<half>(f16, {half(-0.0f), half(0.0f)}), "-0.0,0");
    EXPECT_EQ(data_of<bfloat16>(bf16, {bfloat16(0.0f), bfloat16(-0.0f)}), "0,-0.0");
}

TEST(infer_answer, refuses_numbers_that_json_cannot_say) {
    const auto why = [](auto value) {
        try {
            answer_of<decltype(value)>(io::dtype_of<decltype(value)>, {value});
        } catch (const refusal& refused) {
            EXPECT_EQ(refused.kind(), refusal_kind::bad_request);
            return std::string(refused.what());
        }
        return std::string("no refusal");
    };
    const char* const wanted = "output 'y' has an element that is NaN or infinite, which JSON cannot say";
    EXPECT_THAT(why(std::numeric_limits<float>::quiet_NaN()), HasSubstr(wanted));
    EXPECT_THAT(why(-std::numeric_limits<double>::infinity()), HasSubstr(wanted));
    EXPECT_THAT(why(half(std::numeric_limits<float>::infinity())), HasSubstr(wanted));
}

TEST(infer_answer, escapes_what_json_must_escape) {
    EXPECT_THAT(answer_of<float>(io::dtype::f32, {1}, {}, "a\n\"\\\x1f\u00e4").body,
                HasSubstr(R"("model_version":"3","id":"a\u000a\"\\\u001fä","outputs")"));
}

TEST(infer_answer, puts_binary_data_after_the_json) {
    const written made = answer_of<std::uint16_t>(io::dtype::u16, {7}, {0x4241, 0x4443});
    ASSERT_TRUE(made.json_bytes.has_value());
    EXPECT_EQ(made.body.substr(*made.json_bytes), "ABCD");
    const std::string json = made.body.substr(0, *made.json_bytes);
    EXPECT_THAT(json, HasSubstr(R"({"name":"y","datatype":"UINT16","shape":[1],"data":[7]})"));
    EXPECT_THAT(json, HasSubstr(R"({"name":"z","datatype":"UINT16","shape":[2],"parameters":{"binary_data_size":4}})"));
    EXPECT_FALSE(answer_of<float>(io::dtype::f32, {1}).json_bytes.has_value());
}

}  // namespace
}  // namespace sluice::serve::infer_answer_tests

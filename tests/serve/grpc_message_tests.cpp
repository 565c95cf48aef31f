// SPDX-License-Identifier: Apache-2.0
// Messages of infer requests: what the fields may have, for every datatype. What a server refuses is in grpc_tests.cpp.
#include "serve/grpc/infer_message.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "fuzz/read_grpc_message.hpp"
#include "fuzz/replay.hpp"
#include "sluice/serve/refusal.hpp"

namespace sluice::serve::grpc_message_tests {
namespace {

using ::testing::HasSubstr;

infer_message read(io::dtype type, const inference::ModelInferRequest& message) {
    const std::vector<nn::value_info> inputs{{"x", type, std::vector<nn::dimension>(1)}};
    const std::vector<nn::value_info> outputs{{"y", type, std::vector<nn::dimension>(1)}};
    return read_infer_message(message, inputs, outputs, {}, false);
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
    const infer_message got = read(type, message);
    ASSERT_EQ(got.inputs[0].bytes.size(), wanted.size() * sizeof(T)) << datatype;
    EXPECT_EQ(std::memcmp(got.inputs[0].bytes.data(), wanted.data(), wanted.size() * sizeof(T)), 0) << datatype;
}

using contents = inference::InferTensorContents;

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
        const inference::ModelInferRequest message = message_of(datatype, fill);
        try {
            read(type, message);
            FAIL() << datatype;
        } catch (const refusal& got) {
            EXPECT_THAT(got.why(), HasSubstr(why));
        }
    };
    refused(io::dtype::i8, "INT8", [](contents& c) { c.add_int_contents(128); }, "128 is out of the range from -128");
    refused(io::dtype::i16, "INT16", [](contents& c) { c.add_int_contents(-32769); }, "to 32767");
    refused(io::dtype::u8, "UINT8", [](contents& c) { c.add_uint_contents(256); }, "from 0 to 255");
    refused(io::dtype::u16, "UINT16", [](contents& c) { c.add_uint_contents(65536); }, "from 0 to 65535");
    refused(io::dtype::f16, "FP16", [](contents& c) { c.add_fp32_contents(1); }, "send it in raw_input_contents");
    refused(io::dtype::bf16, "BF16", [](contents&) {}, "send it in raw_input_contents");
}

TEST(grpc_message, files_of_the_fuzzer_are_read_or_refused) {
    sluice::fuzz::replay("fuzz/corpus/grpc_message", fuzz::read_grpc_message);
}

}  // namespace
}  // namespace sluice::serve::grpc_message_tests

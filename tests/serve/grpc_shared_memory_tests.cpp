// SPDX-License-Identifier: Apache-2.0
// Shared memory over gRPC; what is wrong with regions is tested with the regions themselves and over HTTP.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "serve/support/grpc_server.hpp"
#include "serve/support/shared_object.hpp"

namespace sluice::serve::grpc_shared_memory_tests {
namespace {

using namespace inference;
using ::testing::ElementsAre;
using testing::grpc_server;
using ::testing::HasSubstr;
using testing::row;
using testing::shared_object;

grpc_options sharing() {
    grpc_options options;
    options.shared_memory = std::make_shared<shared_regions>();
    return options;
}

grpc::Status add(const grpc_server& server, const std::string& name, const std::string& key, std::uint64_t offset,
                 std::uint64_t bytes) {
    grpc::ClientContext context;
    SystemSharedMemoryRegisterRequest request;
    request.set_name(name);
    request.set_key(key);
    request.set_offset(offset);
    request.set_byte_size(bytes);
    SystemSharedMemoryRegisterResponse ignored;
    return server.stub->SystemSharedMemoryRegister(&context, request, &ignored);
}

template <typename Tensor>
void put_in(Tensor& tensor, const std::string& region, std::int64_t bytes, std::int64_t offset) {
    auto& parameters = *tensor.mutable_parameters();
    parameters["shared_memory_region"].set_string_param(region);
    parameters["shared_memory_byte_size"].set_int64_param(bytes);
    if (offset != 0) parameters["shared_memory_offset"].set_int64_param(offset);
}

ModelInferRequest shared_row(std::int64_t bytes = 8, std::int64_t offset = 0) {
    ModelInferRequest made = row(0, true);
    made.clear_raw_input_contents();
    put_in(*made.mutable_inputs(0), "a", bytes, offset);
    return made;
}

TEST(grpc_shared_memory, inputs_are_read_and_outputs_written_there) {
    const grpc_server server(sharing());
    const shared_object object(64);
    object.put(16, {3, 4});
    ASSERT_TRUE(add(server, "a", object.key(), 0, 64).ok());
    ModelInferRequest request = shared_row(8, 16);
    auto& y = *request.add_outputs();
    y.set_name("y");
    put_in(y, "a", 20, 40);
    ModelInferResponse got;
    const grpc::Status status = server.infer(request, got);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_THAT(object.get(40, 3), ElementsAre(6, 8, 0));
    ASSERT_EQ(got.outputs_size(), 1);
    EXPECT_EQ(got.outputs(0).parameters().at("shared_memory_region").string_param(), "a");
    EXPECT_EQ(got.outputs(0).parameters().at("shared_memory_byte_size").int64_param(), 8);
    EXPECT_EQ(got.outputs(0).parameters().at("shared_memory_offset").int64_param(), 40);
    ASSERT_EQ(got.raw_output_contents_size(), 1);
    EXPECT_EQ(got.raw_output_contents(0), "");
}

TEST(grpc_shared_memory, regions_are_listed_and_forgotten) {
    const grpc_server server(sharing());
    const shared_object object(64);
    ASSERT_TRUE(add(server, "a", object.key(), 8, 16).ok());
    ASSERT_TRUE(add(server, "b", object.key(), 0, 64).ok());
    EXPECT_EQ(add(server, "a", object.key(), 0, 8).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    const auto status = [&](const std::string& name) {
        grpc::ClientContext context;
        SystemSharedMemoryStatusRequest request;
        request.set_name(name);
        SystemSharedMemoryStatusResponse got;
        EXPECT_TRUE(server.stub->SystemSharedMemoryStatus(&context, request, &got).ok());
        return got;
    };
    const auto forget = [&](const std::string& name) {
        grpc::ClientContext context;
        SystemSharedMemoryUnregisterRequest request;
        request.set_name(name);
        SystemSharedMemoryUnregisterResponse ignored;
        EXPECT_TRUE(server.stub->SystemSharedMemoryUnregister(&context, request, &ignored).ok());
    };
    EXPECT_EQ(status("").regions_size(), 2);
    const auto one = status("a");
    ASSERT_EQ(one.regions_size(), 1);
    EXPECT_EQ(one.regions().at("a").key(), object.key());
    EXPECT_EQ(one.regions().at("a").offset(), 8U);
    EXPECT_EQ(one.regions().at("a").byte_size(), 16U);
    forget("a");
    EXPECT_EQ(status("").regions_size(), 1);
    forget("");
    EXPECT_EQ(status("").regions_size(), 0);
}

TEST(grpc_shared_memory, wrong_places_are_refused) {
    const grpc_server server(sharing());
    const shared_object object(64);
    ASSERT_TRUE(add(server, "a", object.key(), 0, 64).ok());
    const auto refused = [&](const ModelInferRequest& request, const std::string& why) {
        const grpc::Status got = server.infer(request);
        EXPECT_EQ(got.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
        EXPECT_THAT(got.error_message(), HasSubstr(why));
    };
    refused(shared_row(8, 57), "are not in");
    refused(shared_row(8, -4), "'shared_memory_offset' is not an integer of at least 0");
    refused(shared_row(12), "takes 8 bytes; the data has 12");
    ModelInferRequest request = shared_row();
    request.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
    refused(request, "is in shared memory, but has fp32_contents too");
    request = shared_row();
    request.add_raw_input_contents("12345678");
    refused(request, "1 raw_input_contents, but 0 inputs that are not in shared memory");
    request = shared_row();
    (*request.mutable_inputs(0)->mutable_parameters())["shared_memory_region"].set_int64_param(1);
    refused(request, "'shared_memory_region' is not a text");
    request = row(1, true);
    put_in(*request.add_outputs(), "a", 4, 0);
    request.mutable_outputs(0)->set_name("y");
    refused(request, "has 8 bytes; shared_memory_byte_size is 4");
    EXPECT_TRUE(server.infer(shared_row()).ok());
    object.resize(4);
    refused(shared_row(), "has become smaller");
}

TEST(grpc_shared_memory, is_refused_unless_the_server_shares_it) {
    const grpc_server server;
    const shared_object object(64);
    EXPECT_EQ(add(server, "a", object.key(), 0, 64).error_code(), grpc::StatusCode::PERMISSION_DENIED);
    const grpc::Status got = server.infer(shared_row());
    EXPECT_EQ(got.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(got.error_message(), HasSubstr("sluice serve --shared-memory"));
}

}  // namespace
}  // namespace sluice::serve::grpc_shared_memory_tests

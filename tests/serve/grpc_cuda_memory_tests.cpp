// SPDX-License-Identifier: Apache-2.0
// Memory on GPUs that clients share, over gRPC; the GPUs are fakes. The regions themselves are tested in
// cuda_regions_tests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "serve/support/fake_gpus.hpp"
#include "serve/support/grpc_server.hpp"

namespace sluice::serve::grpc_cuda_memory_tests {
namespace {

using namespace inference;
using ::testing::ElementsAre;
using testing::fake_gpus;
using testing::grpc_server;
using ::testing::HasSubstr;
using testing::row;

grpc_options sharing(std::shared_ptr<const gpu_memory_opener> gpus) {
    grpc_options options;
    options.shared_memory =
        std::make_shared<shared_regions>(shared_regions_options{.system = false, .gpus = std::move(gpus)});
    return options;
}

grpc::Status add(const grpc_server& server, const std::string& name, const std::string& handle,
                 std::int64_t device_id = 0, std::uint64_t bytes = 64) {
    grpc::ClientContext context;
    CudaSharedMemoryRegisterRequest request;
    request.set_name(name);
    request.set_raw_handle(handle);
    request.set_device_id(device_id);
    request.set_byte_size(bytes);
    CudaSharedMemoryRegisterResponse ignored;
    return server.stub->CudaSharedMemoryRegister(&context, request, &ignored);
}

CudaSharedMemoryStatusResponse status(const grpc_server& server, const std::string& name = {}) {
    grpc::ClientContext context;
    CudaSharedMemoryStatusRequest request;
    request.set_name(name);
    CudaSharedMemoryStatusResponse got;
    EXPECT_TRUE(server.stub->CudaSharedMemoryStatus(&context, request, &got).ok());
    return got;
}

void forget(const grpc_server& server, const std::string& name = {}) {
    grpc::ClientContext context;
    CudaSharedMemoryUnregisterRequest request;
    request.set_name(name);
    CudaSharedMemoryUnregisterResponse ignored;
    EXPECT_TRUE(server.stub->CudaSharedMemoryUnregister(&context, request, &ignored).ok());
}

template <typename Tensor>
void put_in(Tensor& tensor, const std::string& region, std::int64_t bytes, std::int64_t offset) {
    auto& parameters = *tensor.mutable_parameters();
    parameters["shared_memory_region"].set_string_param(region);
    parameters["shared_memory_byte_size"].set_int64_param(bytes);
    parameters["shared_memory_offset"].set_int64_param(offset);
}

const std::string seven(64, '\7'), eight(64, '\10');

bool says_cuda(const grpc_server& server) {
    grpc::ClientContext context;
    ServerMetadataResponse got;
    EXPECT_TRUE(server.stub->ServerMetadata(&context, {}, &got).ok());
    return std::ranges::count(got.extensions(), "cuda_shared_memory") == 1;
}

TEST(grpc_cuda_memory, regions_are_listed_and_forgotten) {
    const auto gpus = std::make_shared<fake_gpus>();
    const auto first = gpus->allocate(7, 64), second = gpus->allocate(8, 64, 1);
    const grpc_server server(sharing(gpus));
    EXPECT_TRUE(says_cuda(server));
    ASSERT_TRUE(add(server, "a", seven).ok());
    ASSERT_TRUE(add(server, "b", eight, 1, 16).ok());
    EXPECT_EQ(status(server).regions_size(), 2);
    const auto one = status(server, "b");
    ASSERT_EQ(one.regions_size(), 1);
    EXPECT_EQ(one.regions().at("b").name(), "b");
    EXPECT_EQ(one.regions().at("b").device_id(), 1U);
    EXPECT_EQ(one.regions().at("b").byte_size(), 16U);
    forget(server, "a");
    EXPECT_EQ(first->opened, 0);
    EXPECT_EQ(status(server).regions_size(), 1);
    forget(server);
    EXPECT_EQ(status(server).regions_size(), 0);
    EXPECT_EQ(second->opened, 0);
}

TEST(grpc_cuda_memory, inputs_are_read_and_outputs_written_there) {
    const auto gpus = std::make_shared<fake_gpus>();
    const auto memory = gpus->allocate(7, 64);
    const grpc_server server(sharing(gpus));
    memory->put(16, {3, 4});
    ASSERT_TRUE(add(server, "a", seven).ok());
    ModelInferRequest request = row(0, true);
    request.clear_raw_input_contents();
    put_in(*request.mutable_inputs(0), "a", 8, 16);
    auto& y = *request.add_outputs();
    y.set_name("y");
    put_in(y, "a", 20, 40);
    ModelInferResponse got;
    const grpc::Status said = server.infer(request, got);
    ASSERT_TRUE(said.ok()) << said.error_message();
    EXPECT_THAT(memory->get(40, 3), ElementsAre(6, 8, 0));
    EXPECT_EQ(got.outputs(0).parameters().at("shared_memory_region").string_param(), "a");
    memory->is_lost = true;
    EXPECT_EQ(server.infer(request).error_code(), grpc::StatusCode::INTERNAL);
    EXPECT_TRUE(server.infer(row(1)).ok());
}

TEST(grpc_cuda_memory, wrong_registrations_are_refused) {
    const auto gpus = std::make_shared<fake_gpus>();
    gpus->allocate(7, 64);
    const grpc_server server(sharing(gpus));
    const auto expect_refused = [](const grpc::Status& got, const std::string& why) {
        EXPECT_EQ(got.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
        EXPECT_THAT(got.error_message(), HasSubstr(why));
    };
    expect_refused(add(server, "a", ""), "'raw_handle' has 0 bytes; accepted are the 64 of a cudaIpcMemHandle_t");
    expect_refused(add(server, "a", std::string(65, '\7')), "'raw_handle' has 65 bytes");
    expect_refused(add(server, "a", eight), "the handle cannot be opened");
    expect_refused(add(server, "a", seven, -1), "'device_id' is -1");
    expect_refused(add(server, "a", seven, 5), "there is no GPU 5");
    expect_refused(add(server, "a", seven, 0, 65), "the allocation is shorter");
    expect_refused(add(server, "a", seven, 0, 0), "has no bytes");
    expect_refused(add(server, "a/b", seven), "is no name of a region");
    EXPECT_EQ(status(server).regions_size(), 0);
}

TEST(grpc_cuda_memory, is_refused_without_a_gpu_and_unless_the_server_opens_it) {
    const grpc_server without(sharing(std::make_shared<fake_gpus>("no NVIDIA driver was found")));
    EXPECT_FALSE(says_cuda(without));
    const grpc::Status got = add(without, "a", seven);
    EXPECT_EQ(got.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(got.error_message(), HasSubstr("cannot open memory of a GPU: no NVIDIA driver was found"));
    const grpc_server closed;
    const grpc::Status forbidden = add(closed, "a", seven);
    EXPECT_EQ(forbidden.error_code(), grpc::StatusCode::PERMISSION_DENIED);
    EXPECT_THAT(forbidden.error_message(), HasSubstr("sluice serve --cuda-shared-memory"));
    // This one opens memory of GPUs only.
    grpc::ClientContext context;
    SystemSharedMemoryStatusResponse ignored;
    EXPECT_EQ(without.stub->SystemSharedMemoryStatus(&context, {}, &ignored).error_code(),
              grpc::StatusCode::PERMISSION_DENIED);
}

}  // namespace
}  // namespace sluice::serve::grpc_cuda_memory_tests

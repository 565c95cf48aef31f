// SPDX-License-Identifier: Apache-2.0
// A server with one fake model "m" behind a front end of gRPC, on a free port, and its client.
#pragma once

#include <grpcpp/create_channel.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include <inference.grpc.pb.h>
#include "io/support/temporary_directory.hpp"
#include "serve/support/fake_engine.hpp"
#include "sluice/serve/grpc_front.hpp"
#include "sluice/serve/server.hpp"

namespace sluice::serve::testing {

struct grpc_server {
    explicit grpc_server(grpc_options options = {}, const std::string& config = "{}", log_sink log = {}) {
        std::filesystem::create_directories(folder / "m");
        std::ofstream(folder / "m/model.onnx") << "x";
        std::ofstream(folder / "m/config.json") << config;
        models = std::make_unique<server>(model_source::repository(folder / ""), engine);
        models->load_all();
        options.port = 0;
        front = std::make_unique<grpc_front>(*models, options, std::move(log));
        stub = client(grpc::InsecureChannelCredentials());
    }

    // With a connection of its own.
    std::unique_ptr<inference::GRPCInferenceService::Stub> client(
        const std::shared_ptr<grpc::ChannelCredentials>& credentials) const {
        grpc::ChannelArguments arguments;
        arguments.SetInt("grpc.use_local_subchannel_pool", 1);
        return inference::GRPCInferenceService::NewStub(
            grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(front->port()), credentials, arguments));
    }

    grpc::Status infer(const inference::ModelInferRequest& request, inference::ModelInferResponse& response,
                       std::chrono::milliseconds time = std::chrono::seconds(20)) const {
        grpc::ClientContext context;
        context.set_deadline(std::chrono::system_clock::now() + time);
        return stub->ModelInfer(&context, request, &response);
    }
    grpc::Status infer(const inference::ModelInferRequest& request) const {
        inference::ModelInferResponse ignored;
        return infer(request, ignored);
    }

    io::testing::temporary_directory folder;
    std::shared_ptr<fake_model> fake = std::make_shared<fake_model>();
    fake_engine engine{[this](const model_version&) { return fake; }};
    std::unique_ptr<server> models;
    std::unique_ptr<grpc_front> front;
    std::unique_ptr<inference::GRPCInferenceService::Stub> stub;
};

// A request to "m" with one row.
inline inference::ModelInferRequest row(float value, bool is_raw = false) {
    inference::ModelInferRequest made;
    made.set_model_name("m");
    made.set_id("seven");
    auto& x = *made.add_inputs();
    x.set_name("x");
    x.set_datatype("FP32");
    x.add_shape(1);
    x.add_shape(2);
    const float both[] = {value, value};
    if (is_raw)
        made.add_raw_input_contents(both, sizeof(both));
    else
        x.mutable_contents()->mutable_fp32_contents()->Add(both, both + 2);
    return made;
}

}  // namespace sluice::serve::testing

// SPDX-License-Identifier: Apache-2.0
// A server with one fake model "m" behind a front end of gRPC, on a free port, and its client.
#pragma once

#include <grpc/grpc.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <inference.grpc.pb.h>
#include "io/support/temporary_directory.hpp"
#include "serve/support/fake_engine.hpp"
#include "sluice/serve/grpc_front.hpp"
#include "sluice/serve/server.hpp"

namespace sluice::serve::testing {

// The last user of gRPC's library waits up to 10 s for its threads. The tests have hundreds of servers, one after the
// other, and are users as long as the program runs.
inline const bool uses_grpc = (grpc_init(), true);

struct grpc_server {
    explicit grpc_server(grpc_options options = {}, const std::string& config = "{}", log_sink log = {},
                         const server_options& loading = {}) {
        std::filesystem::create_directories(folder / "m");
        std::ofstream(folder / "m/model.onnx") << "x";
        std::ofstream(folder / "m/config.json") << config;
        models = std::make_unique<server>(model_source::repository(folder / ""), engine, log_sink(), loading);
        models->load_all();
        options.port = 0;
        front = std::make_unique<grpc_front>(*models, options, std::move(log));
        stub = client(grpc::InsecureChannelCredentials());
    }

    // With a connection of its own.
    std::shared_ptr<grpc::Channel> channel(const std::shared_ptr<grpc::ChannelCredentials>& credentials,
                                           grpc::ChannelArguments arguments = {}) const {
        arguments.SetInt("grpc.use_local_subchannel_pool", 1);
        return grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(front->port()), credentials, arguments);
    }
    std::unique_ptr<inference::GRPCInferenceService::Stub> client(
        const std::shared_ptr<grpc::ChannelCredentials>& credentials) const {
        return inference::GRPCInferenceService::NewStub(channel(credentials));
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
    std::function<void()> on_load = [] {};
    fake_engine engine{[this](const model_version&) {
        on_load();
        return fake;
    }};
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

// A call whose client may do what generated clients do not: send any bytes, and read nothing. Of an answer that it does
// not read it takes 64 KiB.
class raw_call {
public:
    raw_call(const grpc_server& server, const std::string& method, const std::string& token = {})
        : stub_(server.channel(grpc::InsecureChannelCredentials(), takes_little())) {
        if (!token.empty()) context.AddMetadata("authorization", token);
        context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
        call_ = stub_.PrepareCall(&context, "/inference.GRPCInferenceService/" + method, &queue_);
        call_->StartCall(this);
        wait();
    }
    raw_call(const raw_call&) = delete;  // gRPC knows its queue
    raw_call& operator=(const raw_call&) = delete;
    ~raw_call() {
        context.TryCancel();
        queue_.Shutdown();
        void* tag = nullptr;
        for (bool is_done = false; queue_.Next(&tag, &is_done);) continue;
    }

    bool send(const std::string& bytes) {
        const grpc::Slice slice(bytes);
        call_->Write(grpc::ByteBuffer(&slice, 1), this);
        return wait();
    }
    bool send(const google::protobuf::MessageLite& message) { return send(message.SerializeAsString()); }
    void end() {
        call_->WritesDone(this);
        wait();
    }
    bool read(grpc::ByteBuffer& to) {
        call_->Read(&to, this);
        return wait();
    }
    // False: there is no more.
    bool read(google::protobuf::MessageLite& to) {
        grpc::ByteBuffer message;
        grpc::Slice bytes;
        return read(message) && message.DumpToSingleSlice(&bytes).ok() &&
               to.ParseFromArray(bytes.begin(), static_cast<int>(bytes.size()));
    }
    // Reads nothing before. Then it passes over what is there.
    grpc::Status finish() {
        for (grpc::ByteBuffer ignored; read(ignored);) continue;
        grpc::Status status;
        call_->Finish(&status, this);
        wait();
        return status;
    }

    grpc::ClientContext context;

private:
    static grpc::ChannelArguments takes_little() {
        grpc::ChannelArguments made;
        made.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 64 << 10);
        made.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
        made.SetMaxReceiveMessageSize(-1);  // a read of what the server has ended says so, also where it is long
        return made;
    }
    bool wait() {
        void* tag = nullptr;
        bool is_done = false;
        return queue_.Next(&tag, &is_done) && is_done;
    }

    grpc::CompletionQueue queue_;
    grpc::GenericStub stub_;
    std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
};

inline grpc::Status call_with_bytes(const grpc_server& server, const std::string& method, const std::string& bytes,
                                    const std::string& token) {
    raw_call call(server, method, token);
    call.send(bytes);
    call.end();
    return call.finish();
}

}  // namespace sluice::serve::testing

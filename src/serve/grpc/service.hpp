// SPDX-License-Identifier: Apache-2.0
// The calls of the service, but for the work of ModelInfer.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <inference.grpc.pb.h>
#include "serve/grpc/grpc_state.hpp"

namespace sluice::serve {

class inference_service final : public inference::GRPCInferenceService::CallbackService {
public:
    explicit inference_service(std::shared_ptr<grpc_state> state) : state_(std::move(state)) {}
    inference_service(const inference_service&) = delete;  // gRPC knows its address
    inference_service& operator=(const inference_service&) = delete;
    ~inference_service() override;

    // After server::begin_drain(): streams end when what they have taken is answered.
    void end_streams();
    bool has_streams() const;

private:
    using context = grpc::CallbackServerContext;
    using reactor = grpc::ServerUnaryReactor;

    reactor* ServerLive(context* call, const inference::ServerLiveRequest*, inference::ServerLiveResponse* to) override;
    reactor* ServerReady(context* call, const inference::ServerReadyRequest*,
                         inference::ServerReadyResponse* to) override;
    reactor* ModelReady(context* call, const inference::ModelReadyRequest* from,
                        inference::ModelReadyResponse* to) override;
    reactor* ServerMetadata(context* call, const inference::ServerMetadataRequest*,
                            inference::ServerMetadataResponse* to) override;
    reactor* ModelMetadata(context* call, const inference::ModelMetadataRequest* from,
                           inference::ModelMetadataResponse* to) override;
    reactor* ModelInfer(context* call, const inference::ModelInferRequest* from,
                        inference::ModelInferResponse* to) override;
    grpc::ServerBidiReactor<inference::ModelInferRequest, inference::ModelStreamInferResponse>* ModelStreamInfer(
        context* call) override;
    reactor* ModelStatistics(context* call, const inference::ModelStatisticsRequest* from,
                             inference::ModelStatisticsResponse* to) override;
    reactor* RepositoryIndex(context* call, const inference::RepositoryIndexRequest* from,
                             inference::RepositoryIndexResponse* to) override;
    reactor* RepositoryModelLoad(context* call, const inference::RepositoryModelLoadRequest* from,
                                 inference::RepositoryModelLoadResponse*) override;
    reactor* RepositoryModelUnload(context* call, const inference::RepositoryModelUnloadRequest* from,
                                   inference::RepositoryModelUnloadResponse*) override;
    reactor* SystemSharedMemoryStatus(context* call, const inference::SystemSharedMemoryStatusRequest* from,
                                      inference::SystemSharedMemoryStatusResponse* to) override;
    reactor* SystemSharedMemoryRegister(context* call, const inference::SystemSharedMemoryRegisterRequest* from,
                                        inference::SystemSharedMemoryRegisterResponse*) override;
    reactor* SystemSharedMemoryUnregister(context* call, const inference::SystemSharedMemoryUnregisterRequest* from,
                                          inference::SystemSharedMemoryUnregisterResponse*) override;

    shared_regions& require_shared_memory() const;
    void require_token(const context& call) const;
    static grpc::Status status_of_failure(context& call);  // of the exception that is handled
    template <typename Fill>
    reactor* answer(context* call, const char* method, const Fill& fill);
    template <typename Request>
    reactor* change(context* call, const char* method, const Request& from, bool loads);

    const std::shared_ptr<grpc_state> state_;
    std::atomic<std::size_t> changes_{0};  // loads and unloads on threads of their own
};

}  // namespace sluice::serve

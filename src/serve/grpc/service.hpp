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
#include "sluice/serve/grpc_front.hpp"

namespace sluice::serve {

class inference_service final : public inference::GRPCInferenceService::CallbackService {
public:
    // `options` has a budget.
    inference_service(server& models, const grpc_options& options) : models_(models), options_(options) {}
    inference_service(const inference_service&) = delete;  // gRPC knows its address
    inference_service& operator=(const inference_service&) = delete;
    ~inference_service() override;

    // Calls that are not answered.
    std::size_t in_flight() const noexcept { return in_flight_; }

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
    reactor* RepositoryIndex(context* call, const inference::RepositoryIndexRequest* from,
                             inference::RepositoryIndexResponse* to) override;
    reactor* RepositoryModelLoad(context* call, const inference::RepositoryModelLoadRequest* from,
                                 inference::RepositoryModelLoadResponse*) override;
    reactor* RepositoryModelUnload(context* call, const inference::RepositoryModelUnloadRequest* from,
                                   inference::RepositoryModelUnloadResponse*) override;

    void require_token(const context& call) const;
    template <typename Fill>
    reactor* answer(context* call, const Fill& fill);
    template <typename Request>
    reactor* change(context* call, const Request& from, bool loads);

    server& models_;
    const grpc_options options_;
    std::atomic<std::size_t> in_flight_{0};
    std::atomic<std::size_t> changes_{0};  // loads and unloads on threads of their own
};

}  // namespace sluice::serve

// SPDX-License-Identifier: Apache-2.0
// health_updates: what the states of the server are, for the service grpc.health.v1 (Check, Watch) that gRPC has.
#pragma once

#include <grpcpp/health_check_service_interface.h>

#include <map>
#include <string>
#include <thread>

#include "sluice/serve/server.hpp"

namespace sluice::serve {

class health_updates {
public:
    // While it lives, the servers of gRPC that this process starts have the service.
    class enabled {
    public:
        enabled() { grpc::EnableDefaultHealthCheckService(true); }
        enabled(const enabled&) = delete;  // it belongs to a scope
        enabled& operator=(const enabled&) = delete;
        ~enabled() { grpc::EnableDefaultHealthCheckService(false); }
    };

    // From now on the states are looked at every 100 ms: "" and the protocol's service are the server, and, unless the
    // names are not for everyone, each model has its name. Both arguments outlive this.
    health_updates(const server& models, grpc::HealthCheckServiceInterface& to, bool names_models);
    health_updates(const health_updates&) = delete;  // it has a thread
    health_updates& operator=(const health_updates&) = delete;
    ~health_updates();  // says that nothing serves any more

private:
    void look();

    const server& models_;
    grpc::HealthCheckServiceInterface& to_;
    const bool names_models_;
    std::map<std::string, bool> told_;
    std::jthread looking_;
};

}  // namespace sluice::serve

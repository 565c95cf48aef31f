// SPDX-License-Identifier: Apache-2.0
#include "serve/grpc/health.hpp"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <stop_token>
#include <utility>

namespace sluice::serve {
namespace {

constexpr std::chrono::milliseconds health_look_time{100};
constexpr const char* protocol_service = "inference.GRPCInferenceService";

}  // namespace

health_updates::health_updates(const server& models, grpc::HealthCheckServiceInterface& to, bool names_models)
    : models_(models), to_(to), names_models_(names_models) {
    look();
    looking_ = std::jthread([this](const std::stop_token& end) {
        std::mutex mutex;
        std::condition_variable_any wakes;
        std::unique_lock lock(mutex);
        while (!wakes.wait_for(lock, end, health_look_time, [&end] { return end.stop_requested(); })) look();
    });
}

health_updates::~health_updates() {
    looking_ = {};
    to_.SetServingStatus(false);
}

// Only what has changed is said: gRPC sends it to those that watch.
void health_updates::look() {
    try {
        std::map<std::string, bool> now;
        now[""] = now[protocol_service] = models_.is_ready();
        if (names_models_) {
            for (const auto& [name, was] : told_) now.try_emplace(name, false);  // gRPC forgets no name
            const bool is_draining = models_.is_draining();
            for (const index_entry& each : models_.known()) {
                bool& its = now[each.name];
                its = its || (each.state == model_state::ready && !is_draining);
            }
        }
        for (const auto& [name, serves] : now) {
            const auto before = told_.find(name);
            if (before == told_.end() || before->second != serves) to_.SetServingStatus(name, serves);
        }
        told_ = std::move(now);
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): no memory now; the next look says it
    }
}

}  // namespace sluice::serve

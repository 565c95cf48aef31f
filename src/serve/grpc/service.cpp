// SPDX-License-Identifier: Apache-2.0
#include "serve/grpc/service.hpp"

#include <algorithm>

#include "serve/access_token.hpp"
#include "serve/grpc/call_record.hpp"
#include "serve/grpc/infer_reactor.hpp"
#include "serve/grpc/statistics_message.hpp"
#include "serve/grpc/status.hpp"
#include "serve/grpc/stream_reactor.hpp"
#include "serve/request_checks.hpp"
#include "serve/shared_tensors.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::serve {
namespace {

void add_tensor(inference::ModelMetadataResponse::TensorMetadata& to, const nn::value_info& from) {
    to.set_name(from.name);
    to.set_datatype(std::string(datatype_of(from.type)));
    if (!from.shape) return;
    for (const nn::dimension& each : *from.shape)
        to.add_shape(each.length ? static_cast<std::int64_t>(*each.length) : -1);
}

// A call that needs a token is refused when it has none: not by a kind of refusal, which all protocols have.
struct no_token {};

}  // namespace

// gRPC has ended its calls; the threads of loads may still be on their last steps.
inference_service::~inference_service() {
    while (changes_ != 0) std::this_thread::yield();
}

void inference_service::require_token(const context& call) const {
    if (state_->options.tokens.empty()) return;
    const auto& metadata = call.client_metadata();
    const auto [begin, end] = metadata.equal_range("authorization");
    if (begin == end || std::next(begin) != end) throw no_token();
    if (!has_token({begin->second.data(), begin->second.size()}, state_->options.tokens)) throw no_token();
}

// Why a call has no answer.
grpc::Status inference_service::status_of_failure(context& call) {
    try {
        throw;
    } catch (const no_token&) {
        return {grpc::StatusCode::UNAUTHENTICATED, std::string(why_token)};
    } catch (const std::exception& failure) {
        return status_of(refusal_of(failure), call);
    }
}

// Answers at once.
template <typename Fill>
grpc::ServerUnaryReactor* inference_service::answer(context* call, const char* method, const Fill& fill) {
    reactor* const made = call->DefaultReactor();
    call_record record(*state_, *call, method);
    grpc::Status status;
    try {
        fill();
    } catch (...) {
        status = status_of_failure(*call);
    }
    record.end(status, {}, nullptr, nullptr);
    made->Finish(status);
    return made;
}

grpc::ServerUnaryReactor* inference_service::ServerLive(context* call, const inference::ServerLiveRequest*,
                                                        inference::ServerLiveResponse* to) {
    return answer(call, "ServerLive", [&] { to->set_live(true); });
}

grpc::ServerUnaryReactor* inference_service::ServerReady(context* call, const inference::ServerReadyRequest*,
                                                         inference::ServerReadyResponse* to) {
    return answer(call, "ServerReady", [&] { to->set_ready(state_->models.is_ready()); });
}

grpc::ServerUnaryReactor* inference_service::ModelReady(context* call, const inference::ModelReadyRequest* from,
                                                        inference::ModelReadyResponse* to) {
    return answer(call, "ModelReady", [&] {
        require_token(*call);
        try {
            const auto model = state_->models.find(from->name(), version_of(from->version()));
            to->set_ready(!state_->models.is_draining() && model->is_ready());
        } catch (const refusal&) {  // a model that is not there is not ready
            to->set_ready(false);
        }
    });
}

grpc::ServerUnaryReactor* inference_service::ServerMetadata(context* call, const inference::ServerMetadataRequest*,
                                                            inference::ServerMetadataResponse* to) {
    return answer(call, "ServerMetadata", [&] {
        require_token(*call);
        to->set_name("sluice");
        to->set_version(state_->options.version);
        to->add_extensions("model_repository");
        to->add_extensions("statistics");
        if (state_->options.shared_memory) to->add_extensions("system_shared_memory");
    });
}

grpc::ServerUnaryReactor* inference_service::ModelMetadata(context* call, const inference::ModelMetadataRequest* from,
                                                           inference::ModelMetadataResponse* to) {
    return answer(call, "ModelMetadata", [&] {
        require_token(*call);
        const auto model = state_->models.find(from->name(), version_of(from->version()));
        to->set_name(model->name());
        for (const std::size_t each : state_->models.versions_of(model->name())) to->add_versions(std::to_string(each));
        to->set_platform(model->network().platform());
        for (const nn::value_info& each : model->network().inputs()) add_tensor(*to->add_inputs(), each);
        for (const nn::value_info& each : model->network().outputs()) add_tensor(*to->add_outputs(), each);
    });
}

grpc::ServerUnaryReactor* inference_service::ModelInfer(context* call, const inference::ModelInferRequest* from,
                                                        inference::ModelInferResponse* to) {
    std::shared_ptr<infer_reactor> made;
    try {
        require_token(*call);
        made = std::make_shared<infer_reactor>(state_, *call, *from, *to);
    } catch (...) {
        return answer(call, "ModelInfer", [] { throw; });
    }
    reactor* const raw = made.get();
    made->start(made);
    return raw;
}

grpc::ServerBidiReactor<inference::ModelInferRequest, inference::ModelStreamInferResponse>*
inference_service::ModelStreamInfer(context* call) {
    const auto made = std::make_shared<stream_reactor>(state_, *call);
    try {
        require_token(*call);
    } catch (...) {
        const grpc::Status why = status_of_failure(*call);
        call_record(*state_, *call, "ModelStreamInfer").end(why, {}, nullptr, nullptr);
        made->refuse(why);
        return made.get();
    }
    {
        const std::lock_guard lock(state_->mutex);
        std::erase_if(state_->streams, [](const auto& each) { return each.expired(); });
        state_->streams.push_back(made);
    }
    made->start();
    if (state_->models.is_draining()) made->end_soon();
    return made.get();
}

void inference_service::end_streams() {
    std::vector<std::weak_ptr<stream_reactor>> all;
    {
        const std::lock_guard lock(state_->mutex);
        all = state_->streams;
    }
    for (const auto& each : all)
        if (const auto stream = each.lock()) stream->end_soon();
}

bool inference_service::has_streams() const {
    const std::lock_guard lock(state_->mutex);
    return std::ranges::any_of(state_->streams, [](const auto& each) { return !each.expired(); });
}

grpc::ServerUnaryReactor* inference_service::ModelStatistics(context* call,
                                                             const inference::ModelStatisticsRequest* from,
                                                             inference::ModelStatisticsResponse* to) {
    return answer(call, "ModelStatistics", [&] {
        require_token(*call);
        if (!from->name().empty())
            return write_statistics(*to->add_model_stats(),
                                    *state_->models.find(from->name(), version_of(from->version())));
        if (!from->version().empty()) refuse_request("the request has a version, but no name of a model");
        for (const auto& each : state_->models.all()) write_statistics(*to->add_model_stats(), *each);
    });
}

grpc::ServerUnaryReactor* inference_service::RepositoryIndex(context* call,
                                                             const inference::RepositoryIndexRequest* from,
                                                             inference::RepositoryIndexResponse* to) {
    return answer(call, "RepositoryIndex", [&] {
        require_token(*call);
        if (!from->repository_name().empty())
            throw refusal(refusal_kind::not_found, "the server has one repository, without a name");
        for (const index_entry& each : state_->models.index()) {
            if (from->ready() && !each.is_ready) continue;
            auto& row = *to->add_models();
            row.set_name(each.name);
            if (each.version != 0) row.set_version(std::to_string(each.version));
            row.set_state(each.is_ready ? "READY" : "UNAVAILABLE");
            row.set_reason(each.reason);
        }
    });
}

// Loads take long, so each has a thread; the budget bounds their number.
template <typename Request>
grpc::ServerUnaryReactor* inference_service::change(context* call, const char* method, const Request& from,
                                                    bool loads) {
    bool has_begun = false;
    try {
        require_token(*call);
        if (state_->models.is_draining())
            throw refusal(refusal_kind::unavailable, "the server ends and takes no more requests");
        if (!state_->options.repository_control)
            throw refusal(refusal_kind::forbidden, "this server does not let clients load and unload models");
        if (!from.repository_name().empty())
            throw refusal(refusal_kind::not_found, "the server has one repository, without a name");
        for (const auto& [name, value] : from.parameters()) require_change_parameter(name, loads);
        if (!state_->options.budget->begin_load())
            throw refusal(refusal_kind::queue_full, "too many loads wait", state_->options.budget->loads());
        has_begun = true;
        ++changes_;
        ++state_->in_flight;
        reactor* const made = call->DefaultReactor();
        std::thread([this, made, call, loads, record = call_record(*state_, *call, method),
                     name = from.model_name()]() mutable {
            grpc::Status status;
            try {
                if (loads)
                    state_->models.load(name);
                else
                    state_->models.unload(name);
            } catch (const std::exception& failure) {
                status = status_of(refusal_of(failure), *call);
            }
            state_->options.budget->end_load();
            record.end(status, name, nullptr, nullptr);
            --state_->in_flight;
            made->Finish(status);
            --changes_;
        }).detach();
        return made;
    } catch (...) {
        if (has_begun) {
            state_->options.budget->end_load();
            --changes_;
            --state_->in_flight;
        }
        return answer(call, method, [] { throw; });
    }
}

grpc::ServerUnaryReactor* inference_service::RepositoryModelLoad(context* call,
                                                                 const inference::RepositoryModelLoadRequest* from,
                                                                 inference::RepositoryModelLoadResponse*) {
    return change(call, "RepositoryModelLoad", *from, true);
}

grpc::ServerUnaryReactor* inference_service::RepositoryModelUnload(context* call,
                                                                   const inference::RepositoryModelUnloadRequest* from,
                                                                   inference::RepositoryModelUnloadResponse*) {
    return change(call, "RepositoryModelUnload", *from, false);
}

shared_regions& inference_service::require_shared_memory() const {
    if (!state_->options.shared_memory) throw refusal(refusal_kind::forbidden, why_no_shared_memory);
    return *state_->options.shared_memory;
}

grpc::ServerUnaryReactor* inference_service::SystemSharedMemoryStatus(
    context* call, const inference::SystemSharedMemoryStatusRequest* from,
    inference::SystemSharedMemoryStatusResponse* to) {
    return answer(call, "SystemSharedMemoryStatus", [&] {
        require_token(*call);
        const shared_regions& regions = require_shared_memory();
        const auto add = [to](const shared_region& each) {
            auto& made = (*to->mutable_regions())[each.name()];
            made.set_name(each.name());
            made.set_key(each.key());
            made.set_offset(each.offset());
            made.set_byte_size(each.bytes());
        };
        if (!from->name().empty()) return add(*regions.find(from->name()));
        for (const auto& each : regions.all()) add(*each);
    });
}

grpc::ServerUnaryReactor* inference_service::SystemSharedMemoryRegister(
    context* call, const inference::SystemSharedMemoryRegisterRequest* from,
    inference::SystemSharedMemoryRegisterResponse*) {
    return answer(call, "SystemSharedMemoryRegister", [&] {
        require_token(*call);
        require_shared_memory().add(from->name(), from->key(), from->offset(), from->byte_size());
    });
}

grpc::ServerUnaryReactor* inference_service::SystemSharedMemoryUnregister(
    context* call, const inference::SystemSharedMemoryUnregisterRequest* from,
    inference::SystemSharedMemoryUnregisterResponse*) {
    return answer(call, "SystemSharedMemoryUnregister", [&] {
        require_token(*call);
        if (from->name().empty()) return require_shared_memory().remove_all();
        require_shared_memory().remove(from->name());
    });
}

}  // namespace sluice::serve

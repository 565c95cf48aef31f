// SPDX-License-Identifier: Apache-2.0
#include "serve/grpc/service.hpp"

#include "serve/access_token.hpp"
#include "serve/grpc/infer_reactor.hpp"
#include "serve/request_checks.hpp"
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
    if (options_.tokens.empty()) return;
    const auto& metadata = call.client_metadata();
    const auto [begin, end] = metadata.equal_range("authorization");
    if (begin == end || std::next(begin) != end) throw no_token();
    if (!has_token({begin->second.data(), begin->second.size()}, options_.tokens)) throw no_token();
}

// Answers at once.
template <typename Fill>
grpc::ServerUnaryReactor* inference_service::answer(context* call, const Fill& fill) {
    reactor* const made = call->DefaultReactor();
    grpc::Status status;
    try {
        fill();
    } catch (const no_token&) {
        status = {grpc::StatusCode::UNAUTHENTICATED, std::string(why_token)};
    } catch (const std::exception& failure) {
        status = status_of(refusal_of(failure), *call);
    }
    made->Finish(status);
    return made;
}

grpc::ServerUnaryReactor* inference_service::ServerLive(context* call, const inference::ServerLiveRequest*,
                                                        inference::ServerLiveResponse* to) {
    return answer(call, [&] { to->set_live(true); });
}

grpc::ServerUnaryReactor* inference_service::ServerReady(context* call, const inference::ServerReadyRequest*,
                                                         inference::ServerReadyResponse* to) {
    return answer(call, [&] { to->set_ready(models_.is_ready()); });
}

grpc::ServerUnaryReactor* inference_service::ModelReady(context* call, const inference::ModelReadyRequest* from,
                                                        inference::ModelReadyResponse* to) {
    return answer(call, [&] {
        require_token(*call);
        try {
            const auto model = models_.find(from->name(), version_of(from->version()));
            to->set_ready(!models_.is_draining() && model->is_ready());
        } catch (const refusal&) {  // a model that is not there is not ready
            to->set_ready(false);
        }
    });
}

grpc::ServerUnaryReactor* inference_service::ServerMetadata(context* call, const inference::ServerMetadataRequest*,
                                                            inference::ServerMetadataResponse* to) {
    return answer(call, [&] {
        require_token(*call);
        to->set_name("sluice");
        to->set_version(options_.version);
        to->add_extensions("model_repository");
    });
}

grpc::ServerUnaryReactor* inference_service::ModelMetadata(context* call, const inference::ModelMetadataRequest* from,
                                                           inference::ModelMetadataResponse* to) {
    return answer(call, [&] {
        require_token(*call);
        const auto model = models_.find(from->name(), version_of(from->version()));
        to->set_name(model->name());
        for (const std::size_t each : models_.versions_of(model->name())) to->add_versions(std::to_string(each));
        to->set_platform(model->network().platform());
        for (const nn::value_info& each : model->network().inputs()) add_tensor(*to->add_inputs(), each);
        for (const nn::value_info& each : model->network().outputs()) add_tensor(*to->add_outputs(), each);
    });
}

grpc::ServerUnaryReactor* inference_service::ModelInfer(context* call, const inference::ModelInferRequest* from,
                                                        inference::ModelInferResponse* to) {
    std::shared_ptr<infer_reactor> made;
    reactor* const refused = [&]() -> reactor* {
        try {
            require_token(*call);
            if (models_.is_draining())
                throw refusal(refusal_kind::unavailable, "the server ends and takes no more requests");
            made = std::make_shared<infer_reactor>(options_.budget, in_flight_, *call, *from, *to);
            return nullptr;
        } catch (...) {
            return answer(call, [] { throw; });
        }
    }();
    if (refused != nullptr) return refused;
    reactor* const raw = made.get();
    made->begin(models_, made);
    return raw;
}

grpc::ServerUnaryReactor* inference_service::RepositoryIndex(context* call,
                                                             const inference::RepositoryIndexRequest* from,
                                                             inference::RepositoryIndexResponse* to) {
    return answer(call, [&] {
        require_token(*call);
        if (!from->repository_name().empty())
            throw refusal(refusal_kind::not_found, "the server has one repository, without a name");
        for (const index_entry& each : models_.index()) {
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
grpc::ServerUnaryReactor* inference_service::change(context* call, const Request& from, bool loads) {
    bool has_begun = false;
    try {
        require_token(*call);
        if (models_.is_draining())
            throw refusal(refusal_kind::unavailable, "the server ends and takes no more requests");
        if (!options_.repository_control)
            throw refusal(refusal_kind::forbidden, "this server does not let clients load and unload models");
        if (!from.repository_name().empty())
            throw refusal(refusal_kind::not_found, "the server has one repository, without a name");
        for (const auto& [name, value] : from.parameters()) {
            if (name != "unload_dependents")  // there are none
                refuse_request("the parameter " + in_quotes(name) +
                               " is not supported: a model is loaded as its files are");
        }
        if (!options_.budget->begin_load())
            throw refusal(refusal_kind::queue_full, "too many loads wait", options_.budget->loads());
        has_begun = true;
        ++changes_;
        ++in_flight_;
        reactor* const made = call->DefaultReactor();
        std::thread([this, made, call, loads, name = from.model_name()] {
            grpc::Status status;
            try {
                if (loads)
                    models_.load(name);
                else
                    models_.unload(name);
            } catch (const std::exception& failure) {
                status = status_of(refusal_of(failure), *call);
            }
            options_.budget->end_load();
            --in_flight_;
            made->Finish(status);
            --changes_;
        }).detach();
        return made;
    } catch (...) {
        if (has_begun) {
            options_.budget->end_load();
            --changes_;
            --in_flight_;
        }
        return answer(call, [] { throw; });
    }
}

grpc::ServerUnaryReactor* inference_service::RepositoryModelLoad(context* call,
                                                                 const inference::RepositoryModelLoadRequest* from,
                                                                 inference::RepositoryModelLoadResponse*) {
    return change(call, *from, true);
}

grpc::ServerUnaryReactor* inference_service::RepositoryModelUnload(context* call,
                                                                   const inference::RepositoryModelUnloadRequest* from,
                                                                   inference::RepositoryModelUnloadResponse*) {
    return change(call, *from, false);
}

}  // namespace sluice::serve

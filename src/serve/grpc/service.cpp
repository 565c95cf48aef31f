// SPDX-License-Identifier: Apache-2.0
#include "serve/grpc/service.hpp"

#include <grpcpp/support/slice.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "serve/front_clients.hpp"
#include "serve/grpc/config_message.hpp"
#include "serve/grpc/infer_reactor.hpp"
#include "serve/grpc/loop_turn.hpp"
#include "serve/grpc/region_messages.hpp"
#include "serve/grpc/small_message.hpp"
#include "serve/grpc/statistics_message.hpp"
#include "serve/grpc/status.hpp"
#include "serve/grpc/stream_reactor.hpp"
#include "serve/request_checks.hpp"
#include "serve/text_elements.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::serve {
namespace {

void add_tensor(inference::ModelMetadataResponse::TensorMetadata& to, const nn::value_info& from) {
    to.set_name(from.name);
    to.set_datatype(std::string(datatype_of(from)));
    if (!from.shape) return;
    for (const nn::dimension& each : *from.shape)
        to.add_shape(each.length ? static_cast<std::int64_t>(*each.length) : -1);
}

// A call that needs a token is refused when it has none: not by a kind of refusal, which all protocols have.
struct no_token {};

grpc::Status token_status() noexcept {
    try {
        return {grpc::StatusCode::UNAUTHENTICATED, std::string(why_token)};
    } catch (const std::exception&) {
        return {grpc::StatusCode::UNAUTHENTICATED, "no token"};  // short enough to lie in the string itself
    }
}

// A call that takes long counts until its answer is sent, as a request does: a drain waits for it.
class counted_call {
public:
    explicit counted_call(std::shared_ptr<grpc_state> state) noexcept : state_(std::move(state)) {
        ++state_->in_flight;
    }
    counted_call(const counted_call&) = delete;  // it counts once
    counted_call& operator=(const counted_call&) = delete;
    ~counted_call() { --state_->in_flight; }

private:
    const std::shared_ptr<grpc_state> state_;
};

// A load or an unload.
class counted_change final : public call_owner {
public:
    explicit counted_change(std::shared_ptr<grpc_state> state) noexcept : counted_(std::move(state)) {}

    void cancelled() noexcept override {}  // what has begun continues

private:
    const counted_call counted_;
};

// Waiting calls of a method on a loop: more may come at a time, and are asked for as these are taken.
constexpr int waiting_requests = 64;
constexpr int waiting_others = 2;

}  // namespace

class inference_service::method final : public unary_handler {
public:
    using writer = grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>;
    using asking = void (raw_service::*)(grpc::ServerContext*, grpc::ByteBuffer*, writer*, grpc::CompletionQueue*,
                                         grpc::ServerCompletionQueue*, void*);
    using taking = void (inference_service::*)(call&) noexcept;

    method(inference_service& its, asking how_to_ask, taking how_to_take, int waiting)
        : its_(its), ask_(how_to_ask), take_(how_to_take), waiting_(waiting) {}

    int waiting() const noexcept { return waiting_; }
    void ask(grpc::ServerContext& context, grpc::ByteBuffer& request, writer& response,
             grpc::ServerCompletionQueue& queue, call_event& tag) override {
        (its_.raw_.*ask_)(&context, &request, &response, &queue, &queue, &tag);
    }
    void take(unary_call& call) noexcept override { (its_.*take_)(call); }

private:
    inference_service& its_;
    const asking ask_;
    const taking take_;
    const int waiting_;
};

class inference_service::infer_stream final : public stream_handler {
public:
    explicit infer_stream(inference_service& its) : its_(its) {}

    void ask(grpc::ServerContext& context, byte_stream& stream, grpc::ServerCompletionQueue& queue,
             call_event& tag) override {
        its_.raw_.RequestModelStreamInfer(&context, &stream, &queue, &queue, &tag);
    }
    void take(stream_call& call) noexcept override { its_.model_stream_infer(call); }

private:
    inference_service& its_;
};

inference_service::inference_service(std::shared_ptr<grpc_state> state)
    : state_(std::move(state)), stream_(std::make_unique<infer_stream>(*this)) {
    const auto add = [this](method::asking ask, method::taking take, int waiting = waiting_others) {
        methods_.push_back(std::make_unique<method>(*this, ask, take, waiting));
    };
    using raw = raw_service;
    using its = inference_service;
    add(&raw::RequestServerLive, &its::server_live);
    add(&raw::RequestServerReady, &its::server_ready);
    add(&raw::RequestModelReady, &its::model_ready);
    add(&raw::RequestServerMetadata, &its::server_metadata);
    add(&raw::RequestModelMetadata, &its::model_metadata);
    add(&raw::RequestModelInfer, &its::model_infer, waiting_requests);
    add(&raw::RequestModelConfig, &its::model_configuration);
    add(&raw::RequestModelStatistics, &its::model_statistics);
    add(&raw::RequestRepositoryIndex, &its::repository_index);
    add(&raw::RequestRepositoryModelLoad, &its::repository_model_load);
    add(&raw::RequestRepositoryModelUnload, &its::repository_model_unload);
    add(&raw::RequestSystemSharedMemoryStatus, &its::system_memory_status);
    add(&raw::RequestSystemSharedMemoryRegister, &its::system_memory_register);
    add(&raw::RequestSystemSharedMemoryUnregister, &its::system_memory_unregister);
    add(&raw::RequestCudaSharedMemoryStatus, &its::cuda_memory_status);
    add(&raw::RequestCudaSharedMemoryRegister, &its::cuda_memory_register);
    add(&raw::RequestCudaSharedMemoryUnregister, &its::cuda_memory_unregister);
}

// gRPC has ended its calls; the threads of loads may still be on their last steps.
inference_service::~inference_service() {
    while (changes_ != 0) std::this_thread::yield();
}

void inference_service::ask_for_calls(call_loop& loop) {
    loop.reserve_sources(methods_.size() + 1);
    for (const auto& each : methods_)
        for (int i = 0; i < each->waiting(); ++i) loop.ask(*each);
    for (int i = 0; i < waiting_others; ++i) loop.ask(*stream_);
}

access_list::client* inference_service::admit(const grpc::ServerContext& context, needs what) const {
    const grpc::string_ref authority = context.ExperimentalGetAuthority();
    const std::string_view host(authority.data(), authority.size());
    if (!state_->hosts.accepts(host)) throw refusal(refusal_kind::forbidden, state_->hosts.why_not(host));
    if (what == needs::nothing || !state_->options.clients) return nullptr;
    const auto& metadata = context.client_metadata();
    const auto [begin, end] = metadata.equal_range("authorization");
    if (begin == end || std::next(begin) != end) throw no_token();
    access_list::client* const found = state_->options.clients->find({begin->second.data(), begin->second.size()});
    if (found == nullptr) throw no_token();
    std::optional<client_role> role;
    if (what == needs::infer || what == needs::stream) role = client_role::infer;
    if (what == needs::observe) role = client_role::observe;
    if (what == needs::load) role = client_role::load;
    // The messages of a stream are the requests.
    if (what != needs::stream || !found->may(*role)) serve::admit(*found, role);
    return found;
}

const std::shared_ptr<request_budget>& inference_service::budget_of(const access_list::client* from) const noexcept {
    return from != nullptr ? from->budget() : state_->options.budget;
}

// Why a call has no answer.
grpc::Status inference_service::status_of_failure(grpc::ServerContext& context) noexcept {
    try {
        throw;
    } catch (const no_token&) {
        return token_status();
    } catch (const std::exception& failure) {
        return status_of(refusal_of(failure), context);
    }
}

void inference_service::refuse(call& from, call_record& record) noexcept {
    const grpc::Status status = status_of_failure(from.context());
    record.end(status, {}, nullptr, nullptr);
    from.finish(status, {});
}

// Answers at once. The message is parsed when its token is right.
template <typename Request, typename Response, typename Fill>
void inference_service::answer(call& from, const char* name, needs who, const Fill& fill) noexcept {
    call_record record(*state_, from.context(), name);
    grpc::ByteBuffer message;
    try {
        const access_list::client* const client = admit(from.context(), who);
        Request request;
        const small_message parsed(*budget_of(client), from.request(), request, from.loop().pieces());
        Response response;
        fill(request, response);
        write_message(response, message);
    } catch (...) {
        return refuse(from, record);
    }
    record.end(grpc::Status::OK, {}, nullptr, nullptr);
    from.finish(grpc::Status::OK, message);
}

// A call that asks about a model, until it is answered.
template <typename Request>
struct inference_service::question {
    question(std::shared_ptr<grpc_state> state, call& from, const char* name)
        : record(*state, from.context(), name), counted(std::move(state)) {}

    call_record record;
    const counted_call counted;
    Request request;
    std::optional<small_message> parsed;
};

// As answer(), of a model: where that has to be loaded first, later.
template <typename Request, typename Response, typename Fill>
void inference_service::answer_of_model(call& from, const char* name, const Fill& fill) noexcept {
    std::shared_ptr<question<Request>> its;
    try {
        its = std::make_shared<question<Request>>(state_, from, name);
        const access_list::client* const client = admit(from.context(), needs::any_token);
        its->parsed.emplace(*budget_of(client), from.request(), its->request, from.loop().pieces());
    } catch (...) {
        if (its) return refuse(from, its->record);
        call_record record(*state_, from.context(), name);
        return refuse(from, record);
    }
    answer_when_loaded<Request, Response>(from, its, fill);
}

template <typename Request, typename Response, typename Fill>
void inference_service::answer_when_loaded(call& from, const std::shared_ptr<question<Request>>& its,
                                           const Fill& fill) noexcept {
    grpc::ByteBuffer message;
    try {
        std::function<void()> when_loaded;
        if (state_->models.loads_on_demand()) {
            const auto turn = std::make_shared<loop_turn>(
                from.loop(), [this, &from, its, fill] { answer_when_loaded<Request, Response>(from, its, fill); });
            when_loaded = [turn] { turn->begin(turn); };
        }
        const auto model = state_->models.find(its->request.name(), version_of(its->request.version()), when_loaded);
        if (model == nullptr) return;
        Response response;
        fill(*model, response);
        write_message(response, message);
    } catch (...) {
        return refuse(from, its->record);
    }
    its->record.end(grpc::Status::OK, {}, nullptr, nullptr);
    from.finish(grpc::Status::OK, message);
}

void inference_service::server_live(call& from) noexcept {
    answer<inference::ServerLiveRequest, inference::ServerLiveResponse>(
        from, "ServerLive", needs::nothing,
        [&](const inference::ServerLiveRequest&, inference::ServerLiveResponse& response) { response.set_live(true); });
}

void inference_service::server_ready(call& from) noexcept {
    answer<inference::ServerReadyRequest, inference::ServerReadyResponse>(
        from, "ServerReady", needs::nothing,
        [&](const inference::ServerReadyRequest&, inference::ServerReadyResponse& response) {
            response.set_ready(state_->models.is_ready());
        });
}

void inference_service::model_ready(call& from) noexcept {
    answer<inference::ModelReadyRequest, inference::ModelReadyResponse>(
        from, "ModelReady", needs::any_token,
        [&](const inference::ModelReadyRequest& request, inference::ModelReadyResponse& response) {
            try {
                const auto version = version_of(request.version());
                const bool comes = state_->models.comes_on_demand(request.name(), version);
                response.set_ready(!state_->models.is_draining() &&
                                   (comes || state_->models.find(request.name(), version)->is_ready()));
            } catch (const refusal&) {  // a model that is not there is not ready
                response.set_ready(false);
            }
        });
}

void inference_service::server_metadata(call& from) noexcept {
    answer<inference::ServerMetadataRequest, inference::ServerMetadataResponse>(
        from, "ServerMetadata", needs::any_token,
        [&](const inference::ServerMetadataRequest&, inference::ServerMetadataResponse& response) {
            response.set_name("sluice");
            response.set_version(state_->options.version);
            response.add_extensions("model_configuration");
            response.add_extensions("model_repository");
            response.add_extensions("sequence");
            response.add_extensions("statistics");
            const shared_regions* const regions = state_->options.shared_memory.get();
            if (regions && regions->has(region_kind::system)) response.add_extensions("system_shared_memory");
            if (regions && regions->has(region_kind::cuda)) response.add_extensions("cuda_shared_memory");
        });
}

void inference_service::model_metadata(call& from) noexcept {
    answer_of_model<inference::ModelMetadataRequest, inference::ModelMetadataResponse>(
        from, "ModelMetadata", [this](const served_model& model, inference::ModelMetadataResponse& response) {
            response.set_name(model.name());
            for (const std::size_t each : state_->models.versions_of(model.name()))
                response.add_versions(std::to_string(each));
            response.set_platform(model.network().platform());
            for (const nn::value_info& each : model.network().inputs()) add_tensor(*response.add_inputs(), each);
            for (const nn::value_info& each : model.network().outputs()) add_tensor(*response.add_outputs(), each);
            (*response.mutable_properties())["rows"] = model.network().rows().text();
            if (!model.state().all.empty()) (*response.mutable_properties())["state"] = model.state().words;
        });
}

void inference_service::model_infer(call& from) noexcept {
    std::shared_ptr<infer_reactor> made;
    try {
        made = std::make_shared<infer_reactor>(state_, from, admit(from.context(), needs::infer));
    } catch (...) {
        call_record record(*state_, from.context(), "ModelInfer");
        return refuse(from, record);
    }
    from.set_owner(made);
    made->begin(made, from.request(), from.loop());
}

void inference_service::model_stream_infer(stream_call& from) noexcept {
    std::shared_ptr<stream_reactor> made;
    try {
        made = std::make_shared<stream_reactor>(state_, from, admit(from.context(), needs::stream));
        const std::lock_guard lock(state_->mutex);
        std::erase_if(state_->streams, [](const auto& each) { return each.expired(); });
        state_->streams.push_back(made);
    } catch (...) {
        const grpc::Status why = status_of_failure(from.context());
        call_record(*state_, from.context(), "ModelStreamInfer").end(why, {}, nullptr, nullptr);
        return from.finish(why);
    }
    from.set_owner(made);
    made->start();
    // One that the drain did not find there ends here.
    if (state_->models.is_draining()) made->end_soon();
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

void inference_service::model_configuration(call& from) noexcept {
    answer_of_model<inference::ModelConfigRequest, inference::ModelConfigResponse>(
        from, "ModelConfig", [](const served_model& model, inference::ModelConfigResponse& response) {
            write_config(*response.mutable_config(), triton_config_of(model));
        });
}

void inference_service::model_statistics(call& from) noexcept {
    answer<inference::ModelStatisticsRequest, inference::ModelStatisticsResponse>(
        from, "ModelStatistics", needs::observe,
        [&](const inference::ModelStatisticsRequest& request, inference::ModelStatisticsResponse& response) {
            if (!request.name().empty())
                return write_statistics(*response.add_model_stats(),
                                        *state_->models.find(request.name(), version_of(request.version())));
            if (!request.version().empty()) refuse_request("the request has a version, but no name of a model");
            for (const auto& each : state_->models.all()) write_statistics(*response.add_model_stats(), *each);
        });
}

void inference_service::repository_index(call& from) noexcept {
    answer<inference::RepositoryIndexRequest, inference::RepositoryIndexResponse>(
        from, "RepositoryIndex", needs::any_token,
        [&](const inference::RepositoryIndexRequest& request, inference::RepositoryIndexResponse& response) {
            if (!request.repository_name().empty())
                throw refusal(refusal_kind::not_found, "the server has one repository, without a name");
            for (const index_entry& each : state_->models.index()) {
                if (request.ready() && each.state != model_state::ready) continue;
                auto& row = *response.add_models();
                row.set_name(each.name);
                if (each.version != 0) row.set_version(std::to_string(each.version));
                row.set_state(std::string(index_word(each.state)));
                row.set_reason(each.reason);
            }
        });
}

// Loads take long, so each has a thread; the budget bounds their number.
template <typename Request>
void inference_service::change(call& from, const char* name, bool loads) noexcept {
    call_record record(*state_, from.context(), name);
    bool has_begun = false;
    try {
        const access_list::client* const client = admit(from.context(), needs::load);
        Request request;
        const small_message parsed(*budget_of(client), from.request(), request, from.loop().pieces());
        if (state_->models.is_draining()) throw refusal::for_now("the server ends and takes no more requests");
        if (!state_->options.repository_control)
            throw refusal(refusal_kind::forbidden, "this server does not let clients load and unload models");
        if (!request.repository_name().empty())
            throw refusal(refusal_kind::not_found, "the server has one repository, without a name");
        for (const auto& [key, value] : request.parameters()) require_change_parameter(key, loads);
        if (!state_->options.budget->begin_load())
            throw refusal(refusal_kind::queue_full, "too many loads wait", state_->options.budget->loads());
        has_begun = true;
        ++changes_;
        from.set_owner(std::make_shared<counted_change>(state_));
        const std::string who = words_of(client) + " over gRPC";
        std::thread([this, &from, loads, record, who, model = request.model_name()]() mutable {
            grpc::Status status;
            try {
                if (loads)
                    state_->models.load(model);
                else
                    state_->models.unload(model);
                log_change(state_->log, who, model, loads, {});
            } catch (const std::exception& failure) {
                status = status_of(refusal_of(failure), from.context());
                log_change(state_->log, who, model, loads, failure.what());
            }
            state_->options.budget->end_load();
            record.end(status, model, nullptr, nullptr);
            const grpc::Slice nothing;  // the answer to both has no fields
            from.finish(status, grpc::ByteBuffer(&nothing, 1));
            --changes_;
        }).detach();
    } catch (...) {
        if (has_begun) {
            state_->options.budget->end_load();
            --changes_;
        }
        refuse(from, record);
    }
}

void inference_service::repository_model_load(call& from) noexcept {
    change<inference::RepositoryModelLoadRequest>(from, "RepositoryModelLoad", true);
}

void inference_service::repository_model_unload(call& from) noexcept {
    change<inference::RepositoryModelUnloadRequest>(from, "RepositoryModelUnload", false);
}

template <typename Request, typename Response>
void inference_service::answer_regions(call& from, const char* name, needs what) noexcept {
    answer<Request, Response>(from, name, what, [&](const Request& request, Response& response) {
        serve_regions(request, response, state_->options.shared_memory.get());
    });
}

void inference_service::system_memory_status(call& from) noexcept {
    answer_regions<inference::SystemSharedMemoryStatusRequest, inference::SystemSharedMemoryStatusResponse>(
        from, "SystemSharedMemoryStatus", needs::observe);
}

void inference_service::system_memory_register(call& from) noexcept {
    answer_regions<inference::SystemSharedMemoryRegisterRequest, inference::SystemSharedMemoryRegisterResponse>(
        from, "SystemSharedMemoryRegister", needs::infer);
}

void inference_service::system_memory_unregister(call& from) noexcept {
    answer_regions<inference::SystemSharedMemoryUnregisterRequest, inference::SystemSharedMemoryUnregisterResponse>(
        from, "SystemSharedMemoryUnregister", needs::infer);
}

void inference_service::cuda_memory_status(call& from) noexcept {
    answer_regions<inference::CudaSharedMemoryStatusRequest, inference::CudaSharedMemoryStatusResponse>(
        from, "CudaSharedMemoryStatus", needs::observe);
}

void inference_service::cuda_memory_register(call& from) noexcept {
    answer_regions<inference::CudaSharedMemoryRegisterRequest, inference::CudaSharedMemoryRegisterResponse>(
        from, "CudaSharedMemoryRegister", needs::infer);
}

void inference_service::cuda_memory_unregister(call& from) noexcept {
    answer_regions<inference::CudaSharedMemoryUnregisterRequest, inference::CudaSharedMemoryUnregisterResponse>(
        from, "CudaSharedMemoryUnregister", needs::infer);
}

}  // namespace sluice::serve

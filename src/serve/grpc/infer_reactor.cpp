// SPDX-License-Identifier: Apache-2.0
#include "serve/grpc/infer_reactor.hpp"

#include <charconv>
#include <utility>

#include "sluice/base/printable.hpp"

namespace sluice::serve {
namespace {

constexpr std::chrono::hours longest_wait{1};

grpc::StatusCode code_of(refusal_kind kind) {
    switch (kind) {
        case refusal_kind::bad_request: return grpc::StatusCode::INVALID_ARGUMENT;
        case refusal_kind::not_found: return grpc::StatusCode::NOT_FOUND;
        case refusal_kind::forbidden: return grpc::StatusCode::PERMISSION_DENIED;
        case refusal_kind::queue_full: return grpc::StatusCode::RESOURCE_EXHAUSTED;
        case refusal_kind::unavailable: return grpc::StatusCode::UNAVAILABLE;
        case refusal_kind::late: return grpc::StatusCode::DEADLINE_EXCEEDED;
        case refusal_kind::cancelled: return grpc::StatusCode::CANCELLED;
        case refusal_kind::failed: return grpc::StatusCode::INTERNAL;
    }
    return grpc::StatusCode::INTERNAL;
}

// The thread of gRPC that has brought the request.
class this_thread final : public lent_thread {
public:
    void run_soon(std::shared_ptr<served_model> model) override { model_ = std::move(model); }
    void run() {
        if (model_) model_->run_waiting();
    }

private:
    std::shared_ptr<served_model> model_;
};

}  // namespace

grpc::Status status_of(const refusal& why) { return {code_of(why.kind()), why.why()}; }

grpc::Status status_of(const refusal& why, grpc::CallbackServerContext& context) {
    if (why.kind() == refusal_kind::queue_full)
        context.AddTrailingMetadata("queue-length", std::to_string(why.waiting()));
    return status_of(why);
}

std::optional<std::size_t> version_of(const std::string& text) {
    if (text.empty()) return std::nullopt;
    std::size_t version = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), version);
    if (failure != std::errc() || end != text.data() + text.size())
        throw refusal(refusal_kind::not_found, "the version " + in_quotes(text) + " is no number");
    return version;
}

infer_reactor::infer_reactor(std::shared_ptr<request_budget> budget, std::atomic<std::size_t>& in_flight,
                             grpc::CallbackServerContext& context, const inference::ModelInferRequest& request,
                             inference::ModelInferResponse& response)
    : budget_(std::move(budget)),
      in_flight_(in_flight),
      context_(context),
      request_(request),
      response_(response),
      deadline_(context.deadline()) {
    ++in_flight_;
}

infer_reactor::~infer_reactor() = default;

void infer_reactor::begin(const server& models, std::shared_ptr<infer_reactor> self) {
    self_ = self;
    try {
        const std::size_t bytes = request_.ByteSizeLong();
        if (!budget_->take(bytes)) throw refusal(refusal_kind::unavailable, "the memory for requests is in use");
        charged_ = bytes;
        submit(models, self);
    } catch (const std::exception& failure) {
        refuse(refusal_of(failure));
    }
}

void infer_reactor::submit(const server& models, const std::shared_ptr<infer_reactor>& self) {
    // Where the model is replaced meanwhile, the request is read again for its successor.
    while (true) {
        model_ = models.find(request_.model_name(), version_of(request_.model_version()));
        message_ = read_infer_message(request_, model_->network().inputs(), model_->network().outputs());
        inputs = message_.inputs;
        timeout = message_.timeout;
        priority = message_.priority;
        const auto left = deadline_ - std::chrono::system_clock::now();
        if (left <= left.zero()) throw refusal(refusal_kind::late, "the call's deadline was over when it arrived");
        if (left < longest_wait) {
            const auto time = std::chrono::duration_cast<std::chrono::microseconds>(left);
            timeout = std::min(timeout.value_or(time), time);
        }
        this_thread thread;
        // When it is taken, it may be answered and gone at any time: `self` is the caller's.
        if (!std::shared_ptr(model_)->submit(self, &thread)) continue;
        return thread.run();
    }
}

void infer_reactor::answer(std::span<const tensor_view> outputs) noexcept {
    grpc::Status status;
    try {
        write_infer_answer(response_, *model_, request_.id(), message_.outputs, outputs);
    } catch (const std::exception& failure) {
        status = status_of(refusal_of(failure));
    }
    Finish(std::move(status));
}

void infer_reactor::refuse(const refusal& why) noexcept {
    if (why.kind() == refusal_kind::cancelled && is_over())
        return Finish({grpc::StatusCode::DEADLINE_EXCEEDED, "the call's deadline was over before it was computed"});
    Finish(status_of(why, context_));
}

bool infer_reactor::is_over() const noexcept { return std::chrono::system_clock::now() >= deadline_; }
bool infer_reactor::is_wanted() const noexcept { return !is_cancelled_ && !is_over(); }

void infer_reactor::OnDone() {
    budget_->give(charged_);
    --in_flight_;
    self_.reset();
}

}  // namespace sluice::serve

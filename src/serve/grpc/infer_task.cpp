// SPDX-License-Identifier: Apache-2.0
#include "serve/grpc/infer_task.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "serve/grpc/status.hpp"

namespace sluice::serve {
namespace {

constexpr std::chrono::hours longest_wait{1};

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

infer_task::infer_task(std::shared_ptr<grpc_state> state, const grpc::CallbackServerContext& context,
                       const char* method, bool is_streamed)
    : state_(std::move(state)),
      context_(context),
      method_(method),
      is_streamed_(is_streamed),
      deadline_(context.deadline()) {}

infer_task::~infer_task() {
    if (!record_) return;
    state_->options.budget->give(charged_);
    --state_->in_flight;
}

void infer_task::begin(const std::shared_ptr<infer_task>& self) {
    record_.emplace(*state_, context_, method_);
    ++state_->in_flight;
    try {
        if (state_->models.is_draining())
            throw refusal(refusal_kind::unavailable, "the server ends and takes no more requests");
        // A message of many small parts takes much more memory than it had on its way.
        const std::size_t bytes = std::max(request().ByteSizeLong(), request().SpaceUsedLong());
        if (!state_->options.budget->take(bytes))
            throw refusal(refusal_kind::unavailable, "the memory for requests is in use");
        charged_ = bytes;
        submit(self);
    } catch (const std::exception& failure) {
        refuse(refusal_of(failure));
    }
}

void infer_task::submit(const std::shared_ptr<infer_task>& self) {
    const shared_memory_access shared_memory{state_->options.shared_memory, state_->options.budget};
    // Where the model is replaced meanwhile, the request is read again for its successor.
    while (true) {
        model_ = state_->models.find(request().model_name(), version_of(request().model_version()));
        message_ = read_infer_message(request(), model_->network().inputs(), model_->network().outputs(), shared_memory,
                                      is_streamed_);
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

void infer_task::answer(std::span<const tensor_view> outputs) noexcept {
    try {
        write_infer_answer(response(), *model_, request().id(), message_, outputs);
    } catch (const std::exception& failure) {
        const refusal why = refusal_of(failure);
        return end(status_of(why), &why);
    }
    end(grpc::Status::OK, nullptr);
}

void infer_task::refuse(const refusal& why) noexcept {
    if (why.kind() != refusal_kind::cancelled || !is_over()) return end(status_of(why), &why);
    const refusal late(refusal_kind::late, "the call's deadline was over before it was computed");
    end(status_of(late), &late);
}

void infer_task::end(grpc::Status status, const refusal* why) noexcept {
    record_->add_to_timeline(status, request(), model_.get(), so_far, is_streamed_);
    record_->end(status, request().model_name(), model_.get(), &so_far);
    done(std::move(status), why);
}

bool infer_task::is_over() const noexcept { return std::chrono::system_clock::now() >= deadline_; }

}  // namespace sluice::serve

// SPDX-License-Identifier: Apache-2.0
#include "serve/grpc/stream_reactor.hpp"

#include <utility>

#include "serve/grpc/infer_answer.hpp"

namespace sluice::serve {

// One request of the stream.
class stream_task final : public infer_task {
public:
    stream_task(std::shared_ptr<grpc_state> state, const grpc::ServerContext& context,
                std::shared_ptr<stream_reactor> stream)
        : infer_task(std::move(state), context, "ModelStreamInfer", true), stream_(std::move(stream)) {}

    grpc::ByteBuffer request;   // empty when the task has begun
    grpc::ByteBuffer response;  // when it is answered
    bool is_answered = false;   // with the stream's lock

private:
    bool has_left() const noexcept override { return stream_->is_cancelled(); }

    void done(grpc::Status status, grpc::Slice answer, const refusal* why) noexcept override {
        if (why != nullptr) answer = write_stream_refusal(id(), status.error_message());
        grpc::ByteBuffer message(&answer, 1);
        response.Swap(&message);
        stream_->answered(*this);
    }

    const std::shared_ptr<stream_reactor> stream_;
};

stream_reactor::stream_reactor(std::shared_ptr<grpc_state> state, stream_call& call)
    : state_(std::move(state)), call_(call) {}

stream_reactor::~stream_reactor() = default;

void stream_reactor::start() {
    {
        const std::lock_guard lock(mutex_);
        is_reading_ = true;
    }
    read();
}

void stream_reactor::refuse(const grpc::Status& why) {
    {
        const std::lock_guard lock(mutex_);
        is_finished_ = true;
    }
    call_.finish(why);
}

void stream_reactor::end_soon() {
    {
        const std::lock_guard lock(mutex_);
        ends_ = true;
    }
    go_on();
}

// is_reading_ is set.
void stream_reactor::read() {
    incoming_ = std::make_shared<stream_task>(state_, call_.context(), shared_from_this());
    call_.read(incoming_->request);
}

void stream_reactor::read_done(bool is_there) noexcept {
    std::shared_ptr<stream_task> task = std::move(incoming_);
    {
        const std::lock_guard lock(mutex_);
        is_reading_ = false;
        if (is_finished_) return;  // the server has ended the stream; what came meanwhile has no answer
        if (is_there)
            open_.push_back(task);
        else
            has_all_ = true;
    }
    if (is_there) task->begin(task, task->request, call_.loop());
    go_on();
}

void stream_reactor::answered(stream_task& task) {
    {
        const std::lock_guard lock(mutex_);
        task.is_answered = true;
    }
    go_on();
}

void stream_reactor::write_done(bool) noexcept {  // where it is not sent, the client has gone, and the read says so
    std::shared_ptr<stream_task> sent;
    {
        const std::lock_guard lock(mutex_);
        is_writing_ = false;
        sent = std::move(open_.front());
        open_.pop_front();
    }
    sent.reset();
    go_on();
}

// Begins what can be done next. gRPC is called without the lock, because it may call back at once. The stream is
// finished only while no thread is on its way to begin something: after the end gRPC's part of the stream is gone.
void stream_reactor::go_on() {
    std::unique_lock lock(mutex_);
    while (!is_finished_) {
        const bool reads = !is_reading_ && !has_all_ && !ends_ && open_.size() < most_open;
        const bool writes = !is_writing_ && !open_.empty() && open_.front()->is_answered;
        if (!reads && !writes) break;
        is_reading_ = is_reading_ || reads;
        is_writing_ = is_writing_ || writes;
        stream_task* const answer = writes ? open_.front().get() : nullptr;
        ++beginning_;
        lock.unlock();
        if (answer != nullptr) call_.write(answer->response);
        if (reads) read();
        lock.lock();
        --beginning_;
    }
    if (is_finished_ || beginning_ != 0 || !open_.empty() || !(has_all_ || ends_)) return;
    is_finished_ = true;
    const bool is_whole = has_all_;
    lock.unlock();
    call_.finish(is_whole ? grpc::Status::OK
                          : grpc::Status(grpc::StatusCode::UNAVAILABLE, "the server ends and takes no more requests"));
}

}  // namespace sluice::serve

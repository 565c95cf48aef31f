// SPDX-License-Identifier: Apache-2.0
#include "serve/grpc/stream_reactor.hpp"

#include <exception>
#include <utility>

#include "serve/grpc/infer_answer.hpp"
#include "serve/grpc/status.hpp"

namespace sluice::serve {

// One request of the stream.
class stream_task final : public infer_task {
public:
    stream_task(std::shared_ptr<grpc_state> state, const grpc::ServerContext& context, access_list::client* client,
                std::shared_ptr<stream_reactor> stream)
        : infer_task(std::move(state), context, client, "ModelStreamInfer", true), stream_(std::move(stream)) {}

    grpc::ByteBuffer request;   // empty when the task has begun
    grpc::ByteBuffer response;  // when it is answered
    bool is_answered = false;   // with the stream's lock, as what follows
    bool is_written = false;    // the response is there
    std::shared_ptr<stream_task> next;

private:
    bool has_left() const noexcept override { return stream_->is_cancelled(); }
    void begins_late() noexcept override { stream_->go_on(); }

    void done(grpc::Status status, grpc::Slice answer, const refusal* why) noexcept override {
        try {
            if (why != nullptr) answer = write_stream_refusal(id(), status.error_message());
        } catch (const std::exception&) {
            return stream_->answered(*this, false);
        }
        grpc::ByteBuffer message(&answer, 1);
        response.Swap(&message);
        stream_->answered(*this, true);
    }

    const std::shared_ptr<stream_reactor> stream_;
};

stream_reactor::stream_reactor(std::shared_ptr<grpc_state> state, stream_call& call, access_list::client* client)
    : state_(std::move(state)), call_(call), client_(client) {}

stream_reactor::~stream_reactor() = default;

void stream_reactor::start() noexcept {
    {
        const std::lock_guard lock(mutex_);
        is_reading_ = true;
    }
    read();
    go_on();
}

void stream_reactor::refuse(const grpc::Status& why) noexcept {
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
void stream_reactor::read() noexcept {
    try {
        incoming_ = std::make_shared<stream_task>(state_, call_.context(), client_, shared_from_this());
    } catch (const std::exception&) {
        const std::lock_guard lock(mutex_);
        is_reading_ = false;
        lacks_memory_ = true;
        return;
    }
    call_.read(incoming_->request);
}

void stream_reactor::read_done(bool is_there) noexcept {
    std::shared_ptr<stream_task> task = std::move(incoming_);
    {
        const std::lock_guard lock(mutex_);
        is_reading_ = false;
        if (is_finished_) return;  // the server has ended the stream; what came meanwhile has no answer
        if (is_there)
            add_open(task);
        else
            has_all_ = true;
    }
    if (is_there) task->begin(task, task->request, call_.loop());
    go_on();
}

// With the lock.
void stream_reactor::add_open(std::shared_ptr<stream_task> task) noexcept {
    stream_task* const added = task.get();
    (last_open_ != nullptr ? last_open_->next : first_open_) = std::move(task);
    last_open_ = added;
    ++open_;
}

// With the lock, when there is one.
std::shared_ptr<stream_task> stream_reactor::remove_open() noexcept {
    std::shared_ptr<stream_task> first = std::move(first_open_);
    first_open_ = std::move(first->next);
    if (first_open_ == nullptr) last_open_ = nullptr;
    --open_;
    return first;
}

void stream_reactor::answered(stream_task& task, bool is_written) noexcept {
    {
        const std::lock_guard lock(mutex_);
        task.is_answered = true;
        task.is_written = is_written;
    }
    go_on();
}

void stream_reactor::write_done(bool) noexcept {  // where it is not sent, the client has gone, and the read says so
    std::shared_ptr<stream_task> sent;
    {
        const std::lock_guard lock(mutex_);
        is_writing_ = false;
        sent = remove_open();
    }
    sent.reset();
    go_on();
}

// Begins what can be done next. gRPC is called without the lock, because it may call back at once. The stream is
// finished only while no thread is on its way to begin something: after the end gRPC's part of the stream is gone.
// A request whose answer lacks memory ends the stream in its turn; what comes after it has no answer.
void stream_reactor::go_on() noexcept {
    std::unique_lock lock(mutex_);
    while (!is_finished_) {
        const bool has_begun = last_open_ == nullptr || last_open_->has_begun();  // the next one comes after it
        const bool reads = !is_reading_ && has_begun && !has_all_ && !ends_ && !lacks_memory_ && open_ < most_open;
        const bool is_next = !is_writing_ && first_open_ != nullptr && first_open_->is_answered;
        const bool writes = is_next && first_open_->is_written;
        if (is_next && !writes) {
            lacks_memory_ = true;
            break;
        }
        if (!reads && !writes) break;
        is_reading_ = is_reading_ || reads;
        is_writing_ = is_writing_ || writes;
        stream_task* const answer = writes ? first_open_.get() : nullptr;
        ++beginning_;
        lock.unlock();
        if (answer != nullptr) call_.write(answer->response);
        if (reads) read();
        lock.lock();
        --beginning_;
    }
    if (is_finished_ || beginning_ != 0 || is_writing_ || !(has_all_ || ends_ || lacks_memory_)) return;
    const bool is_lost = first_open_ != nullptr && first_open_->is_answered;  // and not written
    if (first_open_ != nullptr && !is_lost) return;
    is_finished_ = true;
    const bool is_whole = has_all_, lacks_memory = lacks_memory_;
    // They have this stream, so it must not have them.
    const std::shared_ptr<stream_task> dropped = std::move(first_open_);
    last_open_ = nullptr;
    lock.unlock();
    if (lacks_memory) return call_.finish(no_memory_status());
    call_.finish(is_whole ? grpc::Status::OK
                          : grpc::Status(grpc::StatusCode::UNAVAILABLE, "the server ends and takes no more requests"));
}

}  // namespace sluice::serve

// SPDX-License-Identifier: Apache-2.0
#include "serve/grpc/stream_call.hpp"

namespace sluice::serve {

void stream_handler::ask_one(call_loop& loop) { stream_call::ask(*this, loop); }

stream_call::stream_call(stream_handler& handler, call_loop& loop)
    : handler_(handler), loop_(loop), stream_(&context_) {
    context_.AsyncNotifyWhenDone(&over_);
    handler_.ask(context_, stream_, loop_.queue(), come_);
}

void stream_call::come(bool is_there) {
    if (!is_there) {  // the server ends
        delete this;
        return;
    }
    loop_.ask(handler_);
    handler_.take(*this);
}

void stream_call::read(grpc::ByteBuffer& to) {
    ++events_left_;
    stream_.Read(&to, &read_);
}

void stream_call::write(const grpc::ByteBuffer& from) {
    ++events_left_;
    loop_.answers().begin(untaken_);
    stream_.Write(from, &written_);
}

void stream_call::finish(const grpc::Status& status) {
    loop_.answers().begin(untaken_);
    stream_.Finish(status, &sent_);
}

void stream_call::has_read(bool is_there) {
    owner_->read_done(is_there);
    end_one();
}

void stream_call::has_written(bool is_sent) {
    loop_.answers().end(untaken_);
    owner_->write_done(is_sent);
    end_one();
}

void stream_call::sent(bool) { end_one(); }

void stream_call::over(bool) {
    if (owner_ && context_.IsCancelled()) owner_->cancelled();
    end_one();
}

void stream_call::end_one() {
    if (--events_left_ != 0) return;
    loop_.answers().end(untaken_);
    delete this;
}

}  // namespace sluice::serve

// SPDX-License-Identifier: Apache-2.0
#include "serve/grpc/unary_call.hpp"

namespace sluice::serve {

void unary_handler::ask_one(call_loop& loop) { unary_call::ask(*this, loop); }

unary_call::unary_call(unary_handler& handler, call_loop& loop) : handler_(handler), loop_(loop), response_(&context_) {
    context_.AsyncNotifyWhenDone(&over_);
    handler_.ask(context_, request_, response_, loop_.queue(), come_);
}

void unary_call::come(bool is_there) {
    if (!is_there) {  // the server ends
        delete this;
        return;
    }
    loop_.ask(handler_);
    handler_.take(*this);
}

void unary_call::finish(const grpc::Status& status, const grpc::ByteBuffer& answer) {
    loop_.answers().begin(untaken_);
    if (status.ok())
        response_.Finish(answer, status, &sent_);
    else
        response_.FinishWithError(status, &sent_);
}

void unary_call::sent(bool) { end_one(); }

void unary_call::over(bool) {
    if (owner_ && context_.IsCancelled()) owner_->cancelled();
    end_one();
}

void unary_call::end_one() {
    if (--events_left_ != 0) return;
    loop_.answers().end(untaken_);
    delete this;
}

}  // namespace sluice::serve

// SPDX-License-Identifier: Apache-2.0
#include "serve/grpc/infer_task.hpp"

#include <algorithm>
#include <functional>
#include <span>
#include <string_view>
#include <utility>

#include "serve/front_clients.hpp"
#include "serve/grpc/compressed_message.hpp"
#include "serve/grpc/infer_answer.hpp"
#include "serve/grpc/loop_turn.hpp"
#include "serve/grpc/status.hpp"
#include "serve/request_checks.hpp"

namespace sluice::serve {
namespace {

constexpr std::chrono::hours longest_wait{1};

[[noreturn]] void refuse_unreadable() { throw refusal(refusal_kind::failed, "the message cannot be read"); }

}  // namespace

infer_task::infer_task(std::shared_ptr<grpc_state> state, const grpc::ServerContext& context,
                       access_list::client* client, const char* method, bool is_streamed)
    : state_(std::move(state)),
      context_(context),
      client_(client),
      budget_(client != nullptr ? client->budget() : state_->options.budget),
      method_(method),
      is_streamed_(is_streamed),
      deadline_(context.deadline()) {}

infer_task::~infer_task() {
    if (!record_) return;
    budget_->give(charged_);
    --state_->in_flight;
}

void infer_task::begin(const std::shared_ptr<infer_task>& self, grpc::ByteBuffer& message, call_loop& thread) noexcept {
    record_.emplace(*state_, context_, method_);
    ++state_->in_flight;
    try {
        if (client_ != nullptr && is_streamed_) {  // a single call is a request, and was admitted
            require_token();
            admit(*client_, client_role::infer);
        }
        if (const content_coding coding = coding_of(message); coding != content_coding::identity) {
            charge(message.Length());
            if (!message.DumpToSingleSlice(&bytes_).ok()) refuse_unreadable();
            message.Clear();
            if (!unpack_in_pieces(self, coding, thread)) return;
        } else {
            read_head(message);
            require_no_drain();
            if (!submit(self, thread)) return;
        }
    } catch (const std::exception& failure) {
        message.Clear();
        refuse(refusal_of(failure));
    }
    has_begun_ = true;
}

// A stream is open for long, and the tokens may change meanwhile.
void infer_task::require_token() const {
    const auto found = context_.client_metadata().find("authorization");
    const std::string_view token(found->second.data(), found->second.size());
    if (state_->options.clients->find(token) == client_) return;
    throw refusal(refusal_kind::forbidden,
                  "the token of this stream, or what it is for, has changed; open another one");
}

void infer_task::charge(std::size_t bytes) {
    if (bytes > budget_->most_bytes()) {
        throw refusal(refusal_kind::too_large, "the message has " + std::to_string(bytes) +
                                                   " bytes; all requests of this client may have " +
                                                   std::to_string(budget_->most_bytes()) + " at a time");
    }
    if (!budget_->take(bytes)) throw refusal::for_now("the memory for requests is in use");
    charged_ += bytes;
}

void infer_task::give_back(std::size_t bytes) noexcept {
    budget_->give(bytes);
    charged_ -= bytes;
}

void infer_task::require_no_drain() const {
    if (state_->models.is_draining()) throw refusal::for_now("the server ends and takes no more requests");
}

// A short message is there after the first piece, which waits only where many have come. False: it is not yet there.
bool infer_task::unpack_in_pieces(const std::shared_ptr<infer_task>& self, content_coding coding, call_loop& thread) {
    const std::string_view packed(reinterpret_cast<const char*>(bytes_.begin()), bytes_.size());
    charge(body_unpacker::state_bytes);
    try {
        unpacker_.emplace(
            packed, coding, state_->options.message_bytes, [this](std::size_t bytes) { charge(bytes); }, "message");
    } catch (...) {
        give_back(body_unpacker::state_bytes);
        throw;
    }
    if (thread.pieces().has_room()) {
        const piece_queue::done first = unpack(self, thread);
        thread.pieces().count(first.bytes);
        if (first.is_last) return !waits_;
    }
    thread.pieces().add([self, &thread] {
        const piece_queue::done its = self->unpack(self, thread);
        if (!its.is_last || self->waits_) return its;
        self->has_begun_ = true;
        self->begins_late();
        return its;
    });
    return false;
}

// The last one: all is there, and the request is submitted or refused.
piece_queue::done infer_task::unpack(const std::shared_ptr<infer_task>& self, call_loop& thread) noexcept {
    std::size_t bytes = 0;
    try {
        require_no_drain();
        if (!is_wanted()) throw refusal(refusal_kind::cancelled, "the client has gone; its message was not unpacked");
        const bool is_whole = unpacker_->step();
        bytes = unpacker_->step_bytes();
        if (!is_whole) return {.is_last = false, .bytes = bytes};
        unpacked_ = unpacker_->take();
        end_unpacking();
        give_back(bytes_.size());
        bytes_ = {};
        head_ = read_infer_head(message());
        submit(self, thread);
    } catch (const std::exception& failure) {
        end_unpacking();
        refuse(refusal_of(failure));
    }
    return {.is_last = true, .bytes = bytes};
}

void infer_task::end_unpacking() noexcept {
    if (!unpacker_) return;
    unpacker_.reset();
    give_back(body_unpacker::state_bytes);
}

std::span<const std::byte> infer_task::message() const noexcept {
    if (!unpacked_.empty()) return std::as_bytes(std::span(unpacked_));
    return std::as_bytes(std::span(bytes_.begin(), bytes_.size()));
}

// The message stays in gRPC's memory where it is there in one part, as short ones are. Else it is copied, once.
void infer_task::read_head(grpc::ByteBuffer& message) {
    const bool is_whole = !message.Valid() || message.TrySingleSlice(&bytes_).ok();
    if (is_whole) head_ = read_infer_head(this->message());  // takes no memory
    charge(message.Length());
    if (!is_whole) {
        if (!message.DumpToSingleSlice(&bytes_).ok()) refuse_unreadable();
        head_ = read_infer_head(this->message());
    }
    message.Clear();
}

void infer_task::go_on(const std::shared_ptr<infer_task>& self, call_loop& thread) noexcept {
    waits_ = false;
    try {
        if (!is_wanted()) throw refusal(refusal_kind::cancelled, "the client has gone; its model was awaited");
        if (!submit(self, thread)) return;
    } catch (const std::exception& failure) {
        refuse(refusal_of(failure));
    }
    has_begun_ = true;
    begins_late();
}

// False: it waits for its model.
bool infer_task::submit(const std::shared_ptr<infer_task>& self, call_loop& thread) {
    const shared_memory_access shared_memory{state_->options.shared_memory, budget_};
    std::function<void()> when_loaded;
    if (state_->models.loads_on_demand()) {
        const auto turn = std::make_shared<loop_turn>(thread, [self, &thread] { self->go_on(self, thread); });
        when_loaded = [turn] { turn->begin(turn); };
    }
    // Where the model is replaced meanwhile, the request is read again for its successor.
    while (true) {
        inputs.clear();
        request_ = {};  // what it has charged is given back before it is charged again
        const auto version = version_of(head_.model_version);
        model_ = state_->models.find_for_request(head_.model_name, version, when_loaded);
        waits_ = model_ == nullptr;
        if (waits_) return false;
        if (message().size() > most_read_of_refused) model_->require_room(*this);
        request_ = read_infer_message(message(), head_, model_->network().inputs(), model_->network().outputs(),
                                      model_->network().texts(), shared_memory, is_streamed_, model_->state());
        inputs = std::move(request_.inputs);
        timeout = request_.timeout;
        priority = request_.priority;
        sequence = request_.sequence;
        if (sequence) {
            if (!version) state_->models.require_version(head_.model_name);
            sequence->budget = budget_;
            sequence->id.client = client_ != nullptr ? client_->number() : 0;
            if (client_ != nullptr) sequence->client = client_->name();
        }
        const auto left = deadline_ - std::chrono::system_clock::now();
        if (left <= left.zero()) throw refusal(refusal_kind::late, "the call's deadline was over when it arrived");
        if (left < longest_wait) {
            const auto time = std::chrono::duration_cast<std::chrono::microseconds>(left);
            timeout = std::min(timeout.value_or(time), time);
        }
        // When it is taken, it may be answered and gone at any time: `self` is the caller's.
        if (std::shared_ptr(model_)->submit(self, &thread)) return true;
    }
}

void infer_task::make_answer(std::span<const tensor_view> outputs) {
    made_ = write_infer_answer(*model_, head_.id, request_, outputs, is_streamed_);
}

bool infer_task::answer(std::span<const tensor_view> outputs) noexcept {
    try {
        if (!made_) make_answer(outputs);
    } catch (const std::exception& failure) {
        const refusal why = refusal_of(failure);
        end(status_of(why), {}, &why);
        return false;
    }
    end(grpc::Status::OK, *std::exchange(made_, std::nullopt), nullptr);
    return true;
}

void infer_task::refuse(const refusal& why) noexcept {
    if (why.kind() != refusal_kind::cancelled || !is_over()) return end(status_of(why), {}, &why);
    const refusal late(refusal_kind::late, "the call's deadline was over before it was computed");
    end(status_of(late), {}, &late);
}

void infer_task::end(grpc::Status status, grpc::Slice answer, const refusal* why) noexcept {
    record_->add_to_timeline(status, head_, model_.get(), so_far, is_streamed_);
    record_->end(status, head_.model_name, model_.get(), &so_far);
    done(std::move(status), std::move(answer), why);
}

bool infer_task::is_over() const noexcept { return std::chrono::system_clock::now() >= deadline_; }

}  // namespace sluice::serve

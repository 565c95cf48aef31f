// SPDX-License-Identifier: Apache-2.0
// refusal: why a request has no answer. Each front end says it in its protocol's words: a status of HTTP or gRPC.
//
// Thread safety: refusals are immutable once made.
#pragma once

#include <cstddef>
#include <exception>
#include <string>
#include <utility>

namespace sluice::serve {

// Why a request has no answer.
enum class refusal_kind {
    bad_request,  // the request is wrong; the same request is always refused
    not_found,    // there is no such model or version
    forbidden,    // the server does not allow it
    queue_full,   // too many requests wait, or come from one client: try again later
    unavailable,  // the server ends, or the model is not ready: try another server
    late,         // the request's time was over before it was computed
    cancelled,    // the client has gone
    failed,       // the model or its device failed
    no_memory,    // the server lacks the memory for this request: try again later
    too_large,    // computing the request takes more memory than a request may have; the same one is always refused
};

class refusal : public std::exception {
public:
    // `why` is for people. `waiting` is for queue_full where requests wait. Costs a move of the text.
    refusal(refusal_kind kind, std::string why, std::size_t waiting = 0)
        : kind_(kind), why_(std::move(why)), waiting_(waiting) {}

    // Of unavailable, for a reason that ends by itself, such as memory that others use: try again later. Costs a move
    // of the text.
    static refusal for_now(std::string why) {
        refusal made(refusal_kind::unavailable, std::move(why));
        made.is_for_now_ = true;
        return made;
    }

    refusal_kind kind() const noexcept { return kind_; }                 // what programs decide by
    const char* what() const noexcept override { return why_.c_str(); }  // the same as why(); costs O(1)
    const std::string& why() const noexcept { return why_; }             // the text for people
    // Of queue_full: the requests that wait; 0: it is not for those.
    std::size_t waiting() const noexcept { return waiting_; }
    // Whether the same request may succeed later: for_now(), queue_full and no_memory.
    bool is_for_now() const noexcept {
        return is_for_now_ || kind_ == refusal_kind::queue_full || kind_ == refusal_kind::no_memory;
    }

private:
    refusal_kind kind_;
    std::string why_;
    std::size_t waiting_;
    bool is_for_now_ = false;
};

// What a request gets when computing it has thrown `failure`: shapes, indices and arguments that do not fit are the
// request's fault; nn::run_too_large is too_large; std::bad_alloc and errc::out_of_memory are no_memory; everything
// else is the model's or the device's. Where there is no memory for the text, the refusal is no_memory with a short
// one. Costs a copy of the text.
refusal refusal_of(const std::exception& failure) noexcept;

}  // namespace sluice::serve

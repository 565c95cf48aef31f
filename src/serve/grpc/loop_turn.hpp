// SPDX-License-Identifier: Apache-2.0
// loop_turn: something that happens once on a loop's thread, when another thread says so. The loop stays as long as the
// call for which it happens.
#pragma once

#include <grpcpp/alarm.h>

#include <functional>
#include <memory>
#include <utility>

#include "serve/grpc/call_loop.hpp"

namespace sluice::serve {

class loop_turn final : public call_event {
public:
    // `what` throws nothing.
    loop_turn(call_loop& loop, std::function<void()> what) : loop_(loop), what_(std::move(what)) {}

    // Once, on any thread. `self` is this.
    void begin(std::shared_ptr<loop_turn> self) {
        self_ = std::move(self);
        alarm_.Set(&loop_.queue(), gpr_now(GPR_CLOCK_MONOTONIC), this);
    }

    void happen(bool) noexcept override {
        const std::shared_ptr<loop_turn> self = std::move(self_);
        const auto what = std::move(what_);
        what();
    }

private:
    call_loop& loop_;
    std::function<void()> what_;
    std::shared_ptr<loop_turn> self_;  // from begin() on
    grpc::Alarm alarm_;
};

}  // namespace sluice::serve

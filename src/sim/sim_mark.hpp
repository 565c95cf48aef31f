// SPDX-License-Identifier: Apache-2.0
// A time stamp that a simulated stream takes when it reaches the mark.
#pragma once

#include <algorithm>
#include <memory>

#include "sim/sim_machine.hpp"

namespace sluice::sim::detail {

struct sim_mark {
    bool is_stamped = false;
    nanoseconds at = 0;
};

// The user's half; the stream holds the other half.
class sim_timed_mark final : public timed_mark {
public:
    sim_timed_mark(sim_machine& in, std::shared_ptr<sim_mark> mark) : machine_(in), mark_(std::move(mark)) {}

    void wait() override {
        if (!machine_.run([&] { return mark_->is_stamped; })) {
            if (machine_.breakdown()) std::rethrow_exception(machine_.breakdown());
            machine_.give_up("an event");
        }
        machine_.host_time = std::max(machine_.host_time, mark_->at);
    }
    bool has_passed() const noexcept override {
        machine_.poll();
        return mark_->is_stamped;
    }
    std::chrono::duration<double, std::micro> since(const timed_mark& earlier) const override {
        const sim_mark& from = *dynamic_cast<const sim_timed_mark&>(earlier).mark_;
        return std::chrono::duration<double, std::nano>(double(mark_->at) - double(from.at));
    }

private:
    sim_machine& machine_;
    std::shared_ptr<sim_mark> mark_;
};

}  // namespace sluice::sim::detail

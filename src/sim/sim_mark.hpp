// A time stamp that a simulated stream takes when it comes to it.
#pragma once

#include <algorithm>
#include <memory>

#include "sim/engine.hpp"

namespace sluice::sim::detail {

struct sim_mark {
    bool is_stamped = false;
    nanoseconds at = 0;
};

// The user's half; the stream holds the other.
class sim_timed_mark final : public timed_mark {
public:
    sim_timed_mark(engine& in, std::shared_ptr<sim_mark> mark) : engine_(in), mark_(std::move(mark)) {}

    void await() override {
        if (!engine_.run([&] { return mark_->is_stamped; })) {
            if (engine_.breakdown()) std::rethrow_exception(engine_.breakdown());
            engine_.give_up("an event");
        }
        engine_.host_time = std::max(engine_.host_time, mark_->at);
    }
    std::chrono::duration<double, std::micro> since(const timed_mark& earlier) const override {
        const sim_mark& from = *dynamic_cast<const sim_timed_mark&>(earlier).mark_;
        return std::chrono::duration<double, std::nano>(double(mark_->at) - double(from.at));
    }

private:
    engine& engine_;
    std::shared_ptr<sim_mark> mark_;
};

}  // namespace sluice::sim::detail

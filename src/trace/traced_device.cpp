// SPDX-License-Identifier: Apache-2.0
#include "trace/traced_device.hpp"

#include <limits>
#include <string>
#include <utility>

#include "runtime/backends.hpp"
#include "sluice/trace/trace_recorder.hpp"
#include "trace/traced_stream.hpp"

namespace sluice::detail {

traced_device::traced_device(std::unique_ptr<device_interpreter> inner, std::shared_ptr<trace_log> log,
                             std::string_view name)
    : inner_(std::move(inner)),
      log_(std::move(log)),
      index_(log_->add_device(std::string(name) + " " + inner_->properties().name)),
      clock_(std::make_shared<trace_clock>(log_->epoch())) {}

std::unique_ptr<stream_interpreter> traced_device::make_stream(command_queue& owner, const stream_options& options) {
    auto stream = inner_->make_stream(owner, options);
    auto track = log_->add_track(index_, owner.index(), clock_);
    const std::lock_guard lock(mutex_);
    tracks_.push_back(track);
    return std::make_unique<traced_stream>(std::move(stream), owner, log_, std::move(track));
}

// The streams are idle, so the times of all outstanding commands can be read now. Then no mark outlives the device.
void traced_device::close() noexcept {
    constexpr ticket last = std::numeric_limits<ticket>::max();
    constexpr std::size_t all = std::numeric_limits<std::size_t>::max();
    {
        const std::lock_guard lock(mutex_);
        for (const auto& each : tracks_) {
            try {
                log_->count_dropped(each->settle(last, all));
            } catch (...) {  // NOLINT(bugprone-empty-catch): no memory; the rest stays outstanding
            }
        }
    }
    inner_->close();
}

}  // namespace sluice::detail

std::unique_ptr<sluice::device_interpreter> sluice::make_traced_device(std::unique_ptr<device_interpreter> inner,
                                                                       trace_recorder& recorder,
                                                                       std::string_view name) {
    return std::make_unique<detail::traced_device>(std::move(inner), recorder.log(), name);
}

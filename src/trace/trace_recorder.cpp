// SPDX-License-Identifier: Apache-2.0
#include "sluice/trace/trace_recorder.hpp"

#include "trace/trace_log.hpp"

namespace sluice {

trace_recorder::trace_recorder(const trace_recorder_options& options)
    : log_(std::make_shared<detail::trace_log>(options.most_events)) {}

trace_recorder::~trace_recorder() { log_->stop(); }

trace trace_recorder::take() { return log_->take(); }

std::size_t trace_recorder::dropped() const noexcept { return log_->dropped(); }

}  // namespace sluice

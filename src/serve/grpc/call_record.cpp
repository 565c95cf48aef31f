// SPDX-License-Identifier: Apache-2.0
#include "serve/grpc/call_record.hpp"

#include <cstdint>
#include <exception>
#include <iterator>

#include "serve/grpc/status.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/serve/span_file.hpp"

namespace sluice::serve {

call_record::call_record(grpc_state& state, const grpc::ServerContext& context, const char* method) noexcept
    : state_(state),
      method_(method),
      is_noted_(state.options.spans != nullptr || (state.options.log_requests && state.log)) {
    try {
        const auto [begin, end] = context.client_metadata().equal_range("traceparent");
        if (begin != end) {
            if (std::next(begin) == end) caller_ = parse_traceparent({begin->second.data(), begin->second.size()});
            if (!caller_) ++state_.wrong_traceparents;
        }
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): without a trace the call is answered as well
    }
    begin_ = clock::now();
}

void call_record::end(const grpc::Status& status, std::string_view model_name, const served_model* model,
                      const infer_call::progress* progress) noexcept {
    const auto code = static_cast<std::size_t>(status.error_code());
    if (code < grpc_state::codes) ++state_.replies[code];
    try {
        if (status.error_code() == grpc::StatusCode::INTERNAL)
            state_.note_failure(printable(status.error_message(), 500));
        if (!is_noted_) return;
        const auto end = clock::now();
        const auto time = std::chrono::duration_cast<std::chrono::microseconds>(end - begin_);
        log_line line;
        if (caller_) line.trace_id = hex_text(caller_->trace);
        if (state_.options.spans && progress != nullptr && (!caller_ || caller_->is_sampled)) {
            const trace_id trace = caller_ ? caller_->trace : new_trace_id();
            traced_request what{.trace = trace, .span = new_span_id(), .begin = begin_, .end = end};
            what.progress = *progress;
            if (caller_) what.parent = caller_->parent;
            what.is_grpc = true;
            what.path = method_;
            what.model = std::string(model_name);
            if (model != nullptr) what.version = std::to_string(model->version());
            what.status = static_cast<int>(status.error_code());
            state_.options.spans->add(what);
            line.trace_id = hex_text(trace);
            line.span_id = hex_text(what.span);
        }
        if (!state_.options.log_requests || !state_.log) return;
        line.event = "request";
        line.message = std::string("gRPC ") + method_ + " " + name_of(status.error_code()) + " in " +
                       std::to_string(time.count()) + " us";
        line.model = printable(model_name, 200);
        state_.log(line);
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): no memory, and the answer is what matters
    }
}

void call_record::add_to_timeline(const grpc::Status& status, const infer_head& request, const served_model* model,
                                  const infer_call::progress& progress, bool is_streamed) const noexcept {
    request_record what{.received = begin_, .complete = begin_, .progress = progress, .answered = clock::now()};
    what.status = static_cast<std::int32_t>(status.error_code());
    what.protocol = is_streamed ? request_protocol::grpc_stream : request_protocol::grpc;
    what.model = short_text<128>(request.model_name);
    what.id = short_text<64>(request.id);
    if (model != nullptr) {
        what.version = model->version();
        what.device = short_text<64>(model->device());
    }
    state_.models.timeline().add(what);
}

}  // namespace sluice::serve

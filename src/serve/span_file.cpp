// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/span_file.hpp"

#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "sluice/base/printable.hpp"

namespace sluice::serve {
namespace {

using json = nlohmann::json;
using clock = infer_call::clock;

constexpr std::size_t most_waiting_bytes = 16 << 20;
constexpr std::chrono::milliseconds gather_time{200};  // the thread does not wake for each request
constexpr int kind_internal = 1;                       // as OTLP numbers them
constexpr int kind_server = 2;
constexpr int status_error = 2;

json text_attribute(const char* key, const std::string& value) {
    return {{"key", key}, {"value", {{"stringValue", value}}}};
}
json number_attribute(const char* key, std::uint64_t value) {
    return {{"key", key}, {"value", {{"intValue", std::to_string(value)}}}};  // JSON's numbers end at 2^53
}

// Nanoseconds since 1970, of a clock that does not jump.
std::string unix_time(clock::time_point at) {
    using std::chrono::duration_cast;
    using std::chrono::nanoseconds;
    static const auto offset = duration_cast<nanoseconds>(std::chrono::system_clock::now().time_since_epoch()) -
                               duration_cast<nanoseconds>(clock::now().time_since_epoch());
    return std::to_string((duration_cast<nanoseconds>(at.time_since_epoch()) + offset).count());
}

json span_of(const traced_request& what, const span_id& id, const std::optional<span_id>& parent, const char* name,
             int kind, clock::time_point begin, clock::time_point end) {
    json made{{"traceId", hex_text(what.trace)},
              {"spanId", hex_text(id)},
              {"name", name},
              {"kind", kind},
              {"startTimeUnixNano", unix_time(begin)},
              {"endTimeUnixNano", unix_time(end)},
              {"attributes", json::array()}};
    if (parent) made["parentSpanId"] = hex_text(*parent);
    return made;
}

// Named as OpenTelemetry names them.
json protocol_attributes(const traced_request& what) {
    const auto status = static_cast<std::uint64_t>(what.status);
    if (what.is_grpc) {
        return {text_attribute("rpc.system", "grpc"), text_attribute("rpc.service", "inference.GRPCInferenceService"),
                text_attribute("rpc.method", what.path), number_attribute("rpc.grpc.status_code", status)};
    }
    return {text_attribute("http.request.method", "POST"), text_attribute("url.path", what.path),
            number_attribute("http.response.status_code", status)};
}

// Whether the server is at fault. Of gRPC: UNKNOWN, DEADLINE_EXCEEDED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE, DATA_LOSS.
bool is_fault(const traced_request& what) {
    if (!what.is_grpc) return what.status >= 500;
    return what.status == 2 || what.status == 4 || (what.status >= 12 && what.status <= 15);
}

json spans_of(const traced_request& what) {
    json request = span_of(what, what.span, what.parent, "request", kind_server, what.begin, what.end);
    request["attributes"] = protocol_attributes(what);
    request["attributes"].push_back(text_attribute("sluice.model.name", what.model));
    request["attributes"].push_back(text_attribute("sluice.model.version", what.version));
    if (is_fault(what)) request["status"] = {{"code", status_error}};
    json all = json::array({std::move(request)});
    const infer_call::progress& its = what.progress;
    if (its.queued == clock::time_point{}) return all;
    const bool was_computed = its.begun != clock::time_point{};
    all.push_back(span_of(what, new_span_id(), what.span, "queue", kind_internal, its.queued,
                          was_computed ? its.begun : what.end));
    if (!was_computed) return all;
    json compute = span_of(what, new_span_id(), what.span, "compute", kind_internal, its.begun, its.computed);
    compute["attributes"] = json::array({number_attribute("sluice.batch.rows", its.batch_rows)});
    all.push_back(std::move(compute));
    return all;
}

}  // namespace

std::string otlp_line(const traced_request& what, const std::string& version) {
    const json resource{
        {"attributes", {text_attribute("service.name", "sluice"), text_attribute("service.version", version)}}};
    const json scope{{"scope", {{"name", "sluice.serve"}, {"version", version}}}, {"spans", spans_of(what)}};
    const json line{{"resourceSpans", json::array({{{"resource", resource}, {"scopeSpans", json::array({scope})}}})}};
    return line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

span_file::span_file(std::filesystem::path file, std::string version, log_sink log, std::size_t bytes)
    : file_(std::move(file)), version_(std::move(version)), log_(std::move(log)), part_bytes_(bytes) {
    begin_part();
    thread_ = std::thread([this] { work(); });
}

// A server that could not listen leaves the file of an earlier one alone.
span_file::~span_file() {
    {
        const std::lock_guard lock(mutex_);
        keeps_empty_ = written_ != 0;
    }
    end();
}

void span_file::end() {
    {
        const std::lock_guard lock(mutex_);
        ends_ = true;
    }
    has_work_.notify_one();
    if (thread_.joinable()) thread_.join();
}

void span_file::begin_part() {
    const std::string number = parts_ == 0 ? "" : "." + std::to_string(parts_);
    part_ = std::make_unique<io::atomic_file>(file_.string() + number);
    length_ = 0;
}

void span_file::end_part() {
    part_->commit();
    part_.reset();
    ++parts_;
}

void span_file::add(const traced_request& what) {
    const std::string line = has_failed_ ? std::string() : otlp_line(what, version_);
    const std::lock_guard lock(mutex_);
    if (has_failed_ || ends_ || waiting_.size() + line.size() > most_waiting_bytes) {
        ++dropped_;
        return;
    }
    waiting_ += line;
    ++written_;
}

void span_file::work() {
    std::unique_lock lock(mutex_);
    bool is_last = false;
    while (!is_last) {
        has_work_.wait_for(lock, gather_time, [&] { return ends_; });
        is_last = ends_;
        const bool keeps = keeps_empty_;
        const std::string lines = std::exchange(waiting_, {});
        lock.unlock();
        try {
            if (!has_failed_) write(lines);
            if (!has_failed_ && is_last && part_ && keeps) end_part();
        } catch (const std::exception& failure) {
            fail(failure);
        }
        lock.lock();
    }
}

void span_file::write(const std::string& lines) {
    if (lines.empty()) return;
    if (!part_) begin_part();
    part_->write_at(length_, std::as_bytes(std::span(lines)));
    length_ += lines.size();
    if (length_ >= part_bytes_) end_part();
}

void span_file::fail(const std::exception& failure) noexcept {
    has_failed_ = true;
    part_.reset();
    try {
        if (log_)
            log_({log_level::error, "spans_lost", std::string("no more spans are written: ") + failure.what(), {}});
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): no memory for the line
    }
}

}  // namespace sluice::serve

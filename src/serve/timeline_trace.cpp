// SPDX-License-Identifier: Apache-2.0
// The records of requests as a trace, which the library's writers draw: a device for each device, a stream for each
// lane. A lane has one request or batch at a time.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/serve/request_timeline.hpp"
#include "sluice/trace/trace.hpp"

namespace sluice::serve {
namespace {

using clock = request_record::clock;

constexpr std::size_t most_drawn = 100;
constexpr std::chrono::microseconds kept_idle{10};
constexpr const char* without_device = "no model";

std::string text_of(std::string_view text, bool is_cut) { return std::string(text) + (is_cut ? "…" : ""); }

std::string text_of(request_protocol protocol) {
    switch (protocol) {
        case request_protocol::http: return "HTTP";
        case request_protocol::grpc: return "gRPC";
        case request_protocol::grpc_stream: return "gRPC stream";
    }
    return {};
}

// Which lane is free: the first one whose last use has ended.
class lane_list {
public:
    std::size_t take(clock::time_point begin, clock::time_point end) {
        std::size_t lane = 0;
        while (lane < ends_.size() && ends_[lane] > begin) ++lane;
        if (lane == ends_.size()) ends_.push_back(end);
        ends_[lane] = end;
        return lane;
    }
    std::size_t size() const noexcept { return ends_.size(); }

private:
    std::vector<clock::time_point> ends_;
};

struct batch_time {
    std::uint64_t number = 0, rows = 0;
    std::string model, version;
    clock::time_point begin{}, end{};
    std::size_t requests = 0;
};

class request_trace {
public:
    request_trace(std::span<const request_record> requests, bool leaves_out_idle) {
        for (const request_record& each : requests) by_begin_.push_back(&each);
        std::ranges::sort(by_begin_, {}, [](const request_record* each) { return std::pair(each->received, each); });
        if (by_begin_.empty()) return;
        begin_ = by_begin_.front()->received;
        if (leaves_out_idle) find_idle();
        std::map<std::string, std::vector<const request_record*>> by_device;
        for (const request_record* each : by_begin_) by_device[device_of(*each)].push_back(each);
        for (const auto& [name, its] : by_device) add_device(name, its);
    }

    const trace& made() const noexcept { return made_; }

private:
    static std::string device_of(const request_record& of) {
        return of.device.view().empty() ? without_device : text_of(of.device.view(), of.device.is_cut());
    }

    // Where nothing was there, all that comes later is moved.
    void find_idle() {
        clock::duration left_out{};
        clock::time_point end = begin_;
        for (const request_record* each : by_begin_) {
            if (each->received > end + kept_idle) {
                left_out += each->received - end - kept_idle;
                moved_.emplace_back(each->received, left_out);
            }
            end = std::max(end, each->answered);
        }
    }

    double us(clock::time_point at) const {
        const auto after = std::ranges::upper_bound(moved_, at, {}, [](const auto& each) { return each.first; });
        const auto left_out = after == moved_.begin() ? clock::duration{} : std::prev(after)->second;
        return std::chrono::duration<double, std::micro>(at - begin_ - left_out).count();
    }

    void add_device(const std::string& name, const std::vector<const request_record*>& requests) {
        const std::size_t device = made_.devices.size();
        made_.devices.push_back(name);
        const std::size_t batch_lanes = add_batches(device, requests);
        lane_list lanes;
        for (const request_record* each : requests)
            add_request(device, batch_lanes + lanes.take(each->received, each->answered), *each);
        for (std::size_t i = 0; i < batch_lanes; ++i) name_stream(device, i, "batches", i, batch_lanes);
        for (std::size_t i = 0; i < lanes.size(); ++i)
            name_stream(device, batch_lanes + i, "requests", i, lanes.size());
    }

    void name_stream(std::size_t device, std::size_t stream, const char* what, std::size_t at, std::size_t count) {
        made_.stream_names.push_back({device, stream, count == 1 ? what : what + (" " + std::to_string(at + 1))});
    }

    // Gives the number of lanes.
    std::size_t add_batches(std::size_t device, const std::vector<const request_record*>& requests) {
        std::map<std::uint64_t, batch_time> batches;
        for (const request_record* each : requests) {
            const infer_call::progress& its = each->progress;
            if (its.batch == 0) continue;
            batch_time& batch = batches[its.batch];
            batch = {its.batch,
                     its.batch_rows,
                     text_of(each->model.view(), each->model.is_cut()),
                     std::to_string(each->version),
                     its.begun,
                     its.computed,
                     batch.requests + 1};
        }
        std::vector<batch_time> in_order;
        in_order.reserve(batches.size());
        for (auto& [number, its] : batches) in_order.push_back(std::move(its));
        std::ranges::sort(in_order, {}, [](const batch_time& each) { return std::pair(each.begin, each.number); });
        lane_list lanes;
        for (const batch_time& each : in_order) {
            trace_event event{.name = "batch", .device = device, .kind = trace_kind::stage};
            event.stream = lanes.take(each.begin, each.end);
            event.operation = each.model + ", " + std::to_string(each.rows) + (each.rows == 1 ? " row" : " rows");
            event.ticket = ++tickets_[{device, event.stream}];
            event.start_us = us(each.begin);
            event.end_us = us(each.end);
            event.details = {{"model", each.model},
                             {"version", each.version},
                             {"batch", std::to_string(each.number)},
                             {"rows", std::to_string(each.rows)},
                             {"requests", std::to_string(each.requests)}};  // of those that are kept
            made_.events.push_back(std::move(event));
        }
        return lanes.size();
    }

    static std::vector<trace_detail> details_of(const request_record& of) {
        std::vector<trace_detail> all{{"model", text_of(of.model.view(), of.model.is_cut())}};
        if (of.version != 0) all.push_back({"version", std::to_string(of.version)});
        all.push_back({"protocol", text_of(of.protocol)});
        if (!of.id.view().empty()) all.push_back({"id", text_of(of.id.view(), of.id.is_cut())});
        all.push_back({"status", std::to_string(of.status)});
        if (of.progress.rows != 0) all.push_back({"rows", std::to_string(of.progress.rows)});
        if (of.progress.batch != 0) {
            all.push_back({"batch", std::to_string(of.progress.batch)});
            all.push_back({"batch rows", std::to_string(of.progress.batch_rows)});
        }
        return all;
    }

    // A stage ends where the next one that was reached begins; the last one ends with the request.
    void add_request(std::size_t device, std::size_t lane, const request_record& of) {
        const infer_call::progress& its = of.progress;
        const std::array<std::pair<const char*, clock::time_point>, 6> stages{{{"arrive", of.received},
                                                                               {"parse", of.complete},
                                                                               {"queue", its.queued},
                                                                               {"join", its.begun},
                                                                               {"compute", its.joined},
                                                                               {"finish", its.computed}}};
        for (std::size_t i = 0; i < stages.size(); ++i) {
            const auto& [name, begin] = stages[i];
            if (begin == clock::time_point{}) continue;
            clock::time_point end = of.answered;
            for (std::size_t next = i + 1; next < stages.size(); ++next) {
                if (stages[next].second == clock::time_point{}) continue;
                end = stages[next].second;
                break;
            }
            if (end == begin) continue;
            trace_event event{.name = name, .device = device, .stream = lane, .kind = trace_kind::stage};
            event.operation = text_of(of.model.view(), of.model.is_cut());
            event.ticket = ++tickets_[{device, lane}];
            event.start_us = us(begin);
            event.end_us = us(end);
            event.details = details_of(of);
            made_.events.push_back(std::move(event));
        }
    }

    std::vector<const request_record*> by_begin_;
    clock::time_point begin_{};
    std::vector<std::pair<clock::time_point, clock::duration>> moved_;      // from when on, and by how much
    std::map<std::pair<std::size_t, std::size_t>, std::uint64_t> tickets_;  // the last one of a lane
    trace made_;
};

}  // namespace

std::string chrome_trace_of(std::span<const request_record> requests) {
    const request_trace made(requests, false);
    std::ostringstream text;
    write_chrome_trace(made.made(), text);
    return std::move(text).str();
}

std::string picture_of(std::span<const request_record> requests) {
    const std::span<const request_record> drawn = requests.last(std::min(requests.size(), most_drawn));
    const request_trace made(drawn, true);
    std::ostringstream text;
    write_timeline(made.made(), text, {.title = "The last requests"});
    return std::move(text).str();
}

}  // namespace sluice::serve

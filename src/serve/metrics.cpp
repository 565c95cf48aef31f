// SPDX-License-Identifier: Apache-2.0
#include "serve/metrics.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace sluice::serve {
namespace {

struct model_row {
    std::string labels;  // model="digits",version="1"
    model_statistics statistics;
    bool is_ready;
};

// Counts as integers, for people.
std::string text_of(double value) {
    char text[32];
    if (value == std::floor(value) && value < 1e15)
        return {text, std::to_chars(text, text + sizeof(text), static_cast<std::int64_t>(value)).ptr};
    return {text, std::to_chars(text, text + sizeof(text), value).ptr};
}

double seconds(std::chrono::nanoseconds time) { return static_cast<double>(time.count()) / 1e9; }

// Every state has its sample, also while no version is in it.
std::map<model_state, std::size_t> count_by_state(const server& models) {
    using enum model_state;
    std::map<model_state, std::size_t> counts{{loading, 0}, {ready, 0}, {failed, 0}, {unloading, 0}};
    for (const index_entry& each : models.known()) ++counts[each.state];
    return counts;
}

bool was_asked(const model_statistics& its) {
    return its.success.count + its.fail.count + its.refused_full + its.refused_late + its.cancelled + its.waiting +
               its.running + its.sequences !=
           0;
}

// Those that were asked last.
std::vector<model_row> rows_of(const std::vector<std::shared_ptr<served_model>>& models, std::size_t most) {
    std::vector<model_row> rows;
    for (const auto& each : models) {
        model_statistics its = each->statistics();
        if (!was_asked(its)) continue;
        // Names have no character that a label would have to escape.
        rows.push_back({"model=\"" + each->name() + "\",version=\"" + std::to_string(each->version()) + "\"",
                        std::move(its), each->is_ready()});
    }
    if (rows.size() > most) {
        const auto last = [](const model_row& row) { return row.statistics.last_asked; };
        std::ranges::nth_element(rows, rows.begin() + static_cast<std::ptrdiff_t>(most), std::ranges::greater(), last);
        rows.resize(most);
    }
    std::ranges::sort(rows, {}, &model_row::labels);
    return rows;
}

class metrics_writer {
public:
    explicit metrics_writer(std::vector<model_row> models) : models_(std::move(models)) {}

    void begin(const char* name, const char* kind, const char* help) {
        name_ = name;
        text_ += std::string("# HELP ") + name + ' ' + help + "\n# TYPE " + name + ' ' + kind + '\n';
    }

    void sample(const std::string& labels, double value, const char* suffix = "") {
        text_.append(name_).append(suffix);
        if (!labels.empty()) text_.append("{").append(labels).append("}");
        text_.append(" ").append(text_of(value)).append("\n");
    }

    void one(const char* name, const char* kind, const char* help, double value) {
        begin(name, kind, help);
        sample("", value);
    }

    void each(const char* name, const char* kind, const char* help,
              const std::function<double(const model_row&)>& value) {
        begin(name, kind, help);
        for (const model_row& model : models_) sample(model.labels, value(model));
    }

    void requests() {
        begin("sluice_inference_requests_total", "counter", "Requests by what became of them.");
        for (const model_row& model : models_) {
            const model_statistics& its = model.statistics;
            sample(model.labels + ",result=\"success\"", static_cast<double>(its.success.count));
            sample(model.labels + ",result=\"failure\"", static_cast<double>(its.fail.count));
            sample(model.labels + ",result=\"queue_full\"", static_cast<double>(its.refused_full));
            sample(model.labels + ",result=\"late\"", static_cast<double>(its.refused_late));
            sample(model.labels + ",result=\"cancelled\"", static_cast<double>(its.cancelled));
        }
    }

    void ended_sequences() {
        begin("sluice_ended_sequences_total", "counter", "Sequences that have ended, by the reason.");
        for (const model_row& model : models_) {
            for (std::size_t i = 0; i < sequence_ends; ++i) {
                sample(model.labels + ",reason=\"" + name_of(static_cast<sequence_end>(i)) + "\"",
                       static_cast<double>(model.statistics.ended_sequences[i]));
            }
        }
    }

    void durations() {
        begin("sluice_inference_request_duration_seconds", "histogram",
              "From the queue's entrance to the answer, of requests that were answered.");
        for (const model_row& model : models_) {
            std::uint64_t count = 0;
            for (std::size_t i = 0; i < model.statistics.latency.size(); ++i) {
                count += model.statistics.latency[i];
                const bool is_last = i == model_statistics::bounds_us.size();
                const std::string bound =
                    is_last ? "+Inf" : text_of(static_cast<double>(model_statistics::bounds_us[i]) / 1e6);
                sample(model.labels + ",le=\"" + bound + "\"", static_cast<double>(count), "_bucket");
            }
            sample(model.labels, seconds(model.statistics.success.total), "_sum");
            sample(model.labels, static_cast<double>(count), "_count");
        }
    }

    std::string take() { return std::move(text_); }

private:
    std::vector<model_row> models_;
    std::string name_;
    std::string text_;
};

}  // namespace

std::string metrics_of(const server& models, const http_metrics& http, std::size_t most_models) {
    const auto all = models.all();
    std::vector<model_row> rows = rows_of(all, most_models);
    const std::size_t shown = rows.size();
    metrics_writer to(std::move(rows));
    using row = const model_row&;
    to.requests();
    to.durations();
    to.each("sluice_inference_delayed_total", "counter",
            "Requests that were delayed: their time was over, and others came first.",
            [](row m) { return static_cast<double>(m.statistics.delayed); });
    to.each("sluice_inference_rows_total", "counter", "Rows that were computed.",
            [](row m) { return static_cast<double>(m.statistics.rows); });
    to.each("sluice_inference_batches_total", "counter", "Batches that were computed.",
            [](row m) { return static_cast<double>(m.statistics.batches); });
    to.each("sluice_inference_queue_seconds_total", "counter", "Time that requests waited.",
            [](row m) { return seconds(m.statistics.queue.total); });
    to.each("sluice_inference_compute_input_seconds_total", "counter", "Time for joining inputs, for each request.",
            [](row m) { return seconds(m.statistics.input.total); });
    to.each("sluice_inference_compute_infer_seconds_total", "counter", "Time for computing, for each request.",
            [](row m) { return seconds(m.statistics.infer.total); });
    to.each("sluice_inference_compute_output_seconds_total", "counter", "Time for writing answers, for each request.",
            [](row m) { return seconds(m.statistics.output.total); });
    to.each("sluice_inference_waiting_requests", "gauge", "Requests in the queue.",
            [](row m) { return static_cast<double>(m.statistics.waiting); });
    to.each("sluice_inference_running_requests", "gauge", "Requests that are computed.",
            [](row m) { return static_cast<double>(m.statistics.running); });
    to.each("sluice_sequences", "gauge", "Sequences that are live.",
            [](row m) { return static_cast<double>(m.statistics.sequences); });
    to.ended_sequences();
    to.each("sluice_model_ready", "gauge", "1 when the model is ready.", [](row m) { return m.is_ready ? 1.0 : 0.0; });
    to.one("sluice_models_without_series", "gauge",
           "Versions of models that are loaded, and have no series: they were not asked, or others were asked later.",
           static_cast<double>(all.size() - shown));
    to.begin("sluice_model_versions", "gauge", "Versions of models by their state.");
    for (const auto& [state, count] : count_by_state(models))
        to.sample("state=\"" + std::string(name_of(state)) + "\"", static_cast<double>(count));
    const models_memory memory = models.memory();
    to.one("sluice_model_file_bytes", "gauge", "Bytes of the files of the loaded models.",
           static_cast<double>(memory.bytes));
    to.one("sluice_model_loads_on_demand_total", "counter", "Loads of models that requests have waited for.",
           static_cast<double>(memory.on_demand));
    to.one("sluice_models_put_out_total", "counter", "Models that had to make room for others.",
           static_cast<double>(memory.put_out));
    to.begin("sluice_http_replies_total", "counter", "Replies by their status.");
    for (const auto& [status, count] : http.replies)
        to.sample("status=\"" + std::to_string(status) + "\"", static_cast<double>(count));
    to.one("sluice_http_connections", "gauge", "Connections that are open.", static_cast<double>(http.connections));
    to.one("sluice_http_request_bytes", "gauge", "Memory for the bodies of requests.",
           static_cast<double>(http.body_bytes));
    to.one("sluice_http_wrong_traceparents_total", "counter", "Requests whose field traceparent was ignored.",
           static_cast<double>(http.wrong_traceparents));
    to.one("sluice_http_failed_handshakes_total", "counter", "Connections that ended before TLS was agreed on.",
           static_cast<double>(http.failed_handshakes));
    to.one("sluice_traced_requests_total", "counter", "Requests whose spans go to the file for OTLP.",
           static_cast<double>(http.traced));
    to.one("sluice_untraced_requests_total", "counter", "Requests whose spans were dropped.",
           static_cast<double>(http.untraced));
    to.one("sluice_server_ready", "gauge", "1 when all models are ready and the server does not end.",
           models.is_ready() ? 1 : 0);
    return to.take();
}

}  // namespace sluice::serve

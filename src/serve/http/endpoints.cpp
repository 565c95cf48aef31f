// SPDX-License-Identifier: Apache-2.0
#include "serve/http/endpoints.hpp"

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "serve/http/json_body.hpp"
#include "serve/http/region_endpoints.hpp"
#include "serve/metrics.hpp"
#include "serve/request_checks.hpp"
#include "serve/text_elements.hpp"
#include "serve/triton_config.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::serve {
namespace {

using json = nlohmann::json;

reply json_reply(const json& value) {
    reply made;
    made.body = value.dump(-1, ' ', false, json::error_handler_t::replace);
    return made;
}

json shape_of(const nn::value_info& value) {
    json shape = json::array();
    if (!value.shape) return shape;
    for (const nn::dimension& each : *value.shape) shape.push_back(each.length ? json(*each.length) : json(-1));
    return shape;
}

json tensors_of(const std::vector<nn::value_info>& values) {
    json all = json::array();
    for (const nn::value_info& each : values)
        all.push_back({{"name", each.name}, {"datatype", datatype_of(each)}, {"shape", shape_of(each)}});
    return all;
}

json metadata_of(const served_model& model, const server& models) {
    json versions = json::array();
    for (const std::size_t each : models.versions_of(model.name())) versions.push_back(std::to_string(each));
    json properties{{"rows", model.network().rows().text()}};
    if (!model.state().all.empty()) properties["state"] = model.state().words;
    return {{"name", model.name()},
            {"versions", versions},
            {"platform", model.network().platform()},
            {"inputs", tensors_of(model.network().inputs())},
            {"outputs", tensors_of(model.network().outputs())},
            {"properties", std::move(properties)}};
}

json configured_tensors(const std::vector<triton_tensor>& tensors) {
    json all = json::array();
    for (const triton_tensor& each : tensors)
        all.push_back({{"name", each.name}, {"data_type", each.data_type}, {"dims", each.dims}});
    return all;
}

json version_policy_of(const model_config& from) {
    if (from.versions) return {{"specific", {{"versions", *from.versions}}}};
    if (from.all_versions) return {{"all", json::object()}};
    return {{"latest", {{"num_versions", 1}}}};
}

json queue_policy_of(const queue_policy& from) {
    return {{"timeout_action", from.timeout_action == timeout_action::delay ? "DELAY" : "REJECT"},
            {"default_timeout_microseconds", from.timeout_us},
            {"allow_timeout_override", from.allow_timeout_override},
            {"max_queue_size", from.queue}};
}

json dynamic_batching_of(const model_config& from) {
    json policies = json::object();
    for (const auto& [priority, policy] : from.priority_queue_policy)
        policies[std::to_string(priority)] = queue_policy_of(policy);
    return {{"preferred_batch_size", from.preferred_batch_size},
            {"max_queue_delay_microseconds", from.max_delay_us},
            {"priority_levels", from.priority_levels},
            {"default_priority_level", from.default_priority},
            {"default_queue_policy", queue_policy_of(from.default_queue_policy)},
            {"priority_queue_policy", std::move(policies)}};
}

json configuration_of(const triton_config& from) {
    json made{
        {"name", from.name},
        {"platform", from.platform},
        {"backend", from.backend},
        {"version_policy", version_policy_of(from.its)},
        {"max_batch_size", from.max_batch_size},
        {"input", configured_tensors(from.inputs)},
        {"output", configured_tensors(from.outputs)},
        {"instance_group",
         json::array({{{"name", from.instance_group}, {"count", from.its.instances}, {"kind", from.instance_kind}}})},
        {"model_transaction_policy", {{"decoupled", false}}}};
    if (from.has_dynamic_batching()) made["dynamic_batching"] = dynamic_batching_of(from.its);
    return made;
}

json to_json(const duration_sum& sum) { return {{"count", sum.count}, {"ns", sum.total.count()}}; }

json statistics_of(const served_model& model) {
    const model_statistics its = model.statistics();
    json batches = json::array();
    for (const auto& [rows, batch] : its.by_rows)
        batches.push_back({{"batch_size", rows},
                           {"compute_input", to_json(batch.input)},
                           {"compute_infer", to_json(batch.infer)},
                           {"compute_output", to_json(batch.output)}});
    const auto last = std::chrono::duration_cast<std::chrono::milliseconds>(its.last.time_since_epoch()).count();
    json latency = json::array();
    for (const std::uint64_t each : its.latency) latency.push_back(each);
    return {{"name", model.name()},
            {"version", std::to_string(model.version())},
            {"last_inference", last},
            {"inference_count", its.rows},
            {"execution_count", its.batches},
            {"inference_stats",
             {{"success", to_json(its.success)},
              {"fail", to_json(its.fail)},
              {"queue", to_json(its.queue)},
              {"compute_input", to_json(its.input)},
              {"compute_infer", to_json(its.infer)},
              {"compute_output", to_json(its.output)}}},
            {"batch_stats", batches},
            // What Triton does not have.
            {"sluice",
             {{"device", model.network().device_name()},
              {"waiting", its.waiting},
              {"running", its.running},
              {"queue", model.config().queue},
              {"max_batch", model.max_batch()},
              {"joins_because", model.joins_because()},
              {"padded_sizes", model.padded_sizes()},
              {"computes", model.network().how()},
              {"refused_queue_full", its.refused_full},
              {"refused_late", its.refused_late},
              {"cancelled", its.cancelled},
              {"delayed", its.delayed},
              {"latency_bounds_us", model_statistics::bounds_us},
              {"latency_counts", latency}}}};
}

reply statistics_reply(const route& to, const server& models) {
    json all = json::array();
    if (to.to == endpoint::all_statistics) {
        for (const auto& each : models.all()) all.push_back(statistics_of(*each));
    } else {
        all.push_back(statistics_of(*models.find(to.model, to.version)));
    }
    return json_reply({{"model_stats", all}});
}

reply index_reply(const std::string& body, const server& models) {
    bool only_ready = false;
    const json asked = object_of(body);  // named: a loop over a temporary's items would outlive it
    for (const auto& [key, value] : asked.items()) {
        if (key != "ready") refuse_request("the body has the unknown key " + in_quotes(key) + "; the key is ready");
        if (!value.is_boolean()) refuse_request("'ready' is not true or false");
        only_ready = value.get<bool>();
    }
    json all = json::array();
    for (const index_entry& each : models.index()) {
        if (only_ready && each.state != model_state::ready) continue;
        json row{{"name", each.name}, {"state", index_word(each.state)}, {"reason", each.reason}};
        if (each.version != 0) row["version"] = std::to_string(each.version);
        all.push_back(std::move(row));
    }
    return json_reply(all);
}

http_metrics http_metrics_of(const front_state& state) {
    http_metrics now;
    for (std::size_t status = 0; status < state.replies.size(); ++status)
        if (const std::uint64_t count = state.replies[status]) now.replies[static_cast<int>(status)] = count;
    now.connections = state.limits.size();
    now.body_bytes = state.budget->bytes();
    now.wrong_traceparents = state.wrong_traceparents;
    now.failed_handshakes = state.failed_handshakes;
    if (state.spans) {
        now.traced = state.spans->written();
        now.untraced = state.spans->dropped();
    }
    return now;
}

reply metadata_reply(const front_state& state) {
    json extensions{"binary_tensor_data", "model_configuration", "model_repository", "sequence", "statistics"};
    const auto& regions = state.options.shared_memory;
    if (regions && regions->has(region_kind::system)) extensions.push_back("system_shared_memory");
    if (regions && regions->has(region_kind::cuda)) extensions.push_back("cuda_shared_memory");
    return json_reply({{"name", "sluice"}, {"version", state.options.version}, {"extensions", extensions}});
}

reply readiness(bool is_ready, json body) {
    if (!is_ready) return error_reply(503, "not ready");
    body["ready"] = true;
    return json_reply(body);
}

reply text_reply(std::string_view text, std::string_view type) {
    reply made;
    made.body = text;
    made.content_type = type;
    return made;
}

reply page_reply() {
    reply made = text_reply(status_page_text(), "text/html; charset=utf-8");
    made.is_page = true;
    return made;
}

}  // namespace

void require_change_body(const std::string& body, bool loads) {
    const json all = object_of(body);
    for (const auto& [key, value] : all.items()) {
        if (key != "parameters")
            refuse_request("the body has the unknown key " + in_quotes(key) + "; the key is parameters");
        if (!value.is_object()) refuse_request("'parameters' is no object");
        for (const auto& [name, its] : value.items()) require_change_parameter(name, loads);
    }
}

reply answer_of(const route& to, const std::string& body, const front_state& state) {
    const server& models = state.models;
    switch (to.to) {
        case endpoint::page: return page_reply();
        case endpoint::metrics:
            return text_reply(metrics_of(state.models, http_metrics_of(state), state.options.metrics_models) +
                                  (state.options.clients ? state.options.clients->metrics() : "") +
                                  (state.options.more_metrics ? state.options.more_metrics() : ""),
                              "text/plain; version=0.0.4; charset=utf-8");
        case endpoint::openapi: return text_reply(openapi_text(), json_type);
        case endpoint::server_metadata: return metadata_reply(state);
        case endpoint::server_live: return json_reply({{"live", true}});
        case endpoint::server_ready: return readiness(models.is_ready(), json::object());
        case endpoint::all_statistics:
        case endpoint::model_statistics: return statistics_reply(to, models);
        case endpoint::repository_index: return index_reply(body, models);
        case endpoint::regions_status:
        case endpoint::regions_register:
        case endpoint::regions_unregister: return json_reply(regions_answer(to, body, state.options));
        case endpoint::model_metadata: return json_reply(metadata_of(*models.find(to.model, to.version), models));
        case endpoint::model_configuration:
            return json_reply(configuration_of(triton_config_of(*models.find(to.model, to.version))));
        case endpoint::model_ready:
            return readiness(!models.is_draining() && (models.comes_on_demand(to.model, to.version) ||
                                                       models.find(to.model, to.version)->is_ready()),
                             {{"name", std::string(to.model)}});
        default: return error_reply(404, "there is no such path");
    }
}

}  // namespace sluice::serve

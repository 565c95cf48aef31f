// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/server.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::serve {
namespace {

[[noreturn]] void refuse_unknown(std::string_view name) {
    throw refusal(refusal_kind::not_found, "there is no model " + in_quotes(name));
}

// Those that the configuration asks for.
std::vector<model_version> wanted_versions(const model_files& files, const model_config& config) {
    if (config.all_versions) return files.versions;
    if (!config.versions) return {files.versions.back()};
    std::vector<model_version> wanted;
    for (const model_version& each : files.versions)
        if (std::ranges::find(*config.versions, each.version) != config.versions->end()) wanted.push_back(each);
    for (const std::size_t each : *config.versions) {
        if (std::ranges::find(files.versions, each, &model_version::version) == files.versions.end())
            throw error(errc::invalid_argument, "the configuration asks for version " + std::to_string(each) +
                                                    " of model " + in_quotes(files.name) + ", which is not there");
    }
    return wanted;
}

std::string describe(const served_model& model) {
    std::string text = "model " + in_quotes(model.name()) + ", version " + std::to_string(model.version()) +
                       ", is on " + model.network().device_name();
    text += model.max_batch() > 1 ? "; up to " + std::to_string(model.max_batch()) + " rows are joined"
                                  : "; requests are computed one by one";
    text += ": " + model.joins_because();
    const std::string how = model.network().how();
    if (!how.empty()) text += "; in " + how;
    const std::vector<std::size_t> padded = model.padded_sizes();
    for (std::size_t i = 0; i < padded.size(); ++i)
        text += (i == 0 ? "; batches are padded to " : ", ") + std::to_string(padded[i]);
    return padded.empty() ? text : text + " rows";
}

}  // namespace

server::server(model_source source, engine& engine, log_sink log)
    : source_(std::move(source)), engine_(engine), log_(std::move(log)) {}

server::~server() {
    for (auto& [name, its] : models_)
        for (auto& [version, model] : its.versions) model->close();
}

void server::say(log_level level, std::string event, std::string message, std::string_view model) const {
    if (log_) log_({level, std::move(event), std::move(message), std::string(model)});
}

void server::load_all() {
    // While a kernel stays on a GPU, libraries that other models need there cannot be loaded.
    std::vector<std::string> resident;
    for (const std::string& each : source_.names()) {
        if (source_.wants_resident(each))
            resident.push_back(each);
        else
            load(each);
    }
    for (const std::string& each : resident) load(each);
}

std::map<std::size_t, std::shared_ptr<served_model>> server::load_versions(const std::string& name) {
    const model_files files = source_.find(name);
    const model_config config = config_of(files);
    std::map<std::size_t, std::shared_ptr<served_model>> made;
    for (const model_version& each : wanted_versions(files, config)) {
        made[each.version] = served_model::make(name, each.version, engine_.load(each, config), config);
        say(log_level::info, "model_loaded", describe(*made[each.version]), name);
    }
    return made;
}

void server::load(std::string_view name) {
    if (!source_.has(name)) refuse_unknown(name);
    const std::lock_guard one_at_a_time(loading_);
    std::map<std::size_t, std::shared_ptr<served_model>> made;
    try {
        made = load_versions(std::string(name));
    } catch (const std::exception& failure) {
        say(log_level::error, "load_failed", printable(failure.what()), name);
        const std::lock_guard lock(mutex_);
        models_[std::string(name)].failure = printable(failure.what());
        throw;
    }
    {
        const std::lock_guard lock(mutex_);
        entry& its = models_[std::string(name)];
        its.versions.swap(made);
        its.failure.clear();
    }
    for (auto& [version, before] : made) before->close();  // requests find the new ones by now
}

void server::unload(std::string_view name) {
    const std::lock_guard one_at_a_time(loading_);
    std::map<std::size_t, std::shared_ptr<served_model>> before;
    {
        const std::lock_guard lock(mutex_);
        const auto found = models_.find(name);
        if (found == models_.end() || found->second.versions.empty()) {
            throw refusal(refusal_kind::not_found, "the model " + in_quotes(name) + " is not loaded");
        }
        before = std::move(found->second.versions);
        models_.erase(found);
    }
    for (auto& [version, model] : before) model->close();
    say(log_level::info, "model_unloaded", "model " + in_quotes(name) + " is unloaded", name);
}

std::shared_ptr<served_model> server::find(std::string_view name, std::optional<std::size_t> version) const {
    const std::lock_guard lock(mutex_);
    const auto found = models_.find(name);
    if (found == models_.end()) refuse_unknown(name);
    const auto& [versions, failure] = found->second;
    if (versions.empty()) {
        throw refusal(refusal_kind::unavailable, "the model " + in_quotes(name) + " is not loaded: " + failure);
    }
    if (!version) return versions.rbegin()->second;
    const auto its = versions.find(*version);
    if (its != versions.end()) return its->second;
    throw refusal(refusal_kind::not_found,
                  "the model " + in_quotes(name) + " is not loaded in version " + std::to_string(*version));
}

std::vector<std::size_t> server::versions_of(std::string_view name) const {
    const std::lock_guard lock(mutex_);
    std::vector<std::size_t> all;
    const auto found = models_.find(name);
    if (found == models_.end()) return all;
    for (const auto& [version, model] : found->second.versions) all.push_back(version);
    return all;
}

std::vector<std::shared_ptr<served_model>> server::all() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<served_model>> models;
    for (const auto& [name, its] : models_)
        for (const auto& [version, model] : its.versions) models.push_back(model);
    return models;
}

std::vector<index_entry> server::index() const {
    std::vector<index_entry> rows;
    std::vector<std::string> known = source_.names();
    const std::lock_guard lock(mutex_);
    for (const auto& [name, its] : models_) {
        std::erase(known, name);
        for (const auto& [version, model] : its.versions) {
            const bool ready = model->is_ready();
            rows.push_back({name, version, ready, ready ? its.failure : "its device has failed"});
        }
        if (its.versions.empty()) rows.push_back({name, 0, false, its.failure});
    }
    for (std::string& name : known) rows.push_back({std::move(name), 0, false, "unloaded"});
    std::ranges::sort(rows, {}, &index_entry::name);
    return rows;
}

bool server::is_ready() const {
    const std::lock_guard lock(mutex_);
    if (is_draining_) return false;
    return std::ranges::all_of(models_, [](const auto& each) {
        return !each.second.versions.empty() &&
               std::ranges::all_of(each.second.versions, [](const auto& its) { return its.second->is_ready(); });
    });
}

void server::begin_drain() {
    {
        const std::lock_guard lock(mutex_);
        if (std::exchange(is_draining_, true)) return;
    }
    say(log_level::info, "drain", "the server ends: accepted requests are answered, new ones are refused", {});
}

bool server::is_draining() const {
    const std::lock_guard lock(mutex_);
    return is_draining_;
}

}  // namespace sluice::serve

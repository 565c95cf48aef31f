// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/server.hpp"

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

#include "serve/awaited_loads.hpp"
#include "serve/configured_tensors.hpp"
#include "serve/lost_reason.hpp"
#include "serve/state_folder.hpp"
#include "serve/wanted_versions.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::serve {
namespace {

[[noreturn]] void refuse_unknown(std::string_view name) {
    throw refusal(refusal_kind::not_found, "there is no model " + in_quotes(name));
}

// Unlike std::erase_if, it lets the predicate change what is left out.
template <typename Map, typename Predicate>
void leave_out(Map& from, const Predicate& is_left_out) {
    for (auto each = from.begin(); each != from.end();)
        each = is_left_out(each->first, each->second) ? from.erase(each) : std::next(each);
}

// Of a load that has ended so early that nothing has noted it, as without memory: this takes none.
template <typename Slots>
void fail_loading(Slots& its) {
    for (auto& [version, each] : its) {
        if (!each.state.is(model_state::loading)) continue;
        each.state.become(model_state::failed, "its load failed");  // short enough to lie in the string itself
        each.has_failed = true;
    }
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

server::server(model_source source, engine& engine, log_sink log, const server_options& options)
    : source_(std::move(source)), engine_(engine), log_(std::move(log)), options_(options) {
    if (options.most_bytes != 0 && !options.loads_on_demand)
        throw error(errc::invalid_argument,
                    "only models that are loaded on demand are put out: most_bytes needs "
                    "loads_on_demand");
    if (!options.states.empty()) state_folder::require_shared(options.states);
    if (options.loads_on_demand)
        loads_ = std::make_unique<awaited_loads>([this](const std::string& name) { return load_on_demand(name); });
}

server::~server() {
    if (loads_) loads_->end();  // it is there until then: its thread asks for it
    for (auto& [name, its] : models_)
        for (auto& [version, each] : its)
            if (each.model) each.model->close();
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
        else if (!loads_on_demand())
            load(each);
    }
    for (const std::string& each : resident) load(each);
}

// What has no model that answers becomes `loading`.
void server::begin_load(std::string_view name) {
    const std::lock_guard lock(mutex_);
    slots& its = models_[std::string(name)];
    if (its.empty()) its[0];
    for (auto& [version, each] : its)
        if (!each.model) each.state.become(model_state::loading);
}

// The versions are known now.
void server::expect(std::string_view name, const std::vector<model_version>& wanted) {
    const std::lock_guard lock(mutex_);
    slots& its = models_.find(name)->second;
    const bool has_failed = std::ranges::any_of(its, [](const auto& each) {
        return each.second.has_failed && !each.second.model;  // it may be a version that is not wanted any more
    });
    for (const model_version& each : wanted) {
        slot& one = its[each.version];
        look_at_device(one);
        if (!one.model) one.has_failed = has_failed;
        if (!one.state.is(model_state::ready) && !one.state.is(model_state::loading))
            one.state.become(model_state::loading);
    }
    leave_out(its, [&](std::size_t version, slot& each) {
        const auto is_it = [&](const model_version& one) { return one.version == version; };
        if (each.model || std::ranges::any_of(wanted, is_it)) return false;
        each.state.become(model_state::unloaded);
        return true;
    });
}

// Called with the lock.
void server::look_at_device(slot& of) const {
    if (!of.model || !of.state.is(model_state::ready) || !of.model->is_lost()) return;
    const loaded_model& its = of.model->network();
    of.state.become(model_state::failed, its.is_lost() ? lost_reason(its) : "its device has failed");
    of.has_failed = true;
}

// One version continues what the one before it had. Of several each has its clients.
std::filesystem::path server::states_of(const model_version& which, std::size_t versions) const {
    if (options_.states.empty()) return {};
    return options_.states / (versions == 1 ? which.name : which.name + "@" + std::to_string(which.version));
}

// `counts`: a failure makes the server not ready.
server::made_models server::make_versions(const std::string& name, std::map<std::size_t, std::size_t>& its_shares,
                                          bool counts) {
    made_models made;
    std::size_t version = 0;
    try {
        const model_files files = source_.find(name);
        const model_config config = config_of(files);
        const std::vector<model_version> wanted = wanted_versions(files, config);
        its_shares = config.shares;
        expect(name, wanted);
        for (const model_version& each : wanted) {
            version = each.version;
            const auto network = engine_.load(each, config);
            require_configured_tensors(files.config, config, *network);
            made[version] = {
                served_model::make(name, version, network, config, states_of(each, wanted.size())),
                bytes_of_version(each, source_.is_repository() ? source_.folder() / name : std::filesystem::path())};
            say(log_level::info, "model_loaded", describe(*made[version].model), name);
        }
    } catch (const std::exception& failure) {
        const std::string why = printable(failure.what());
        say(log_level::error, "load_failed", why, name);
        note_failed_load(name, version, why, counts);
        throw;
    }
    return made;
}

// The versions that were to come with the one that has failed do not come either.
void server::note_failed_load(std::string_view name, std::size_t version, const std::string& why, bool counts) {
    const std::lock_guard lock(mutex_);
    slots& its = models_.find(name)->second;
    leave_out(its, [&](std::size_t number, slot& each) {
        if (!each.state.is(model_state::loading)) {
            if (each.state.is(model_state::ready)) each.state.note("loading it again has failed: " + why);
            return false;
        }
        const bool stays = version == 0 || number == version || each.model;
        each.state.become(stays ? model_state::failed : model_state::unloaded, why);
        each.has_failed = each.has_failed || counts;
        return !stays;
    });
}

// Of a version to its successor: the same version, or of the latest one, where it goes, the new latest. A version that
// was not the latest has no other successor: its sequences are of other clients than those of the latest.
void server::hand_over_sequences(const slots& before, const made_models& made) {
    if (made.empty()) return;
    bool is_latest = true;
    for (auto each = before.rbegin(); each != before.rend(); ++each) {
        const auto& [version, its] = *each;
        if (!its.model) continue;
        const bool was_latest = std::exchange(is_latest, false);
        const auto same = made.find(version);
        if (same != made.end()) {
            same->second.model->continue_from(*its.model);
        } else if (was_latest && (!before.contains(made.rbegin()->first) || !before.at(made.rbegin()->first).model)) {
            made.rbegin()->second.model->continue_from(*its.model);
        }
    }
}

// Called with the lock.
void server::forget_shares(std::string_view name) noexcept {
    if (const auto found = shares_.find(name); found != shares_.end()) shares_.erase(found);
    has_shares_ = !shares_.empty();
}

// Called with the lock.
std::shared_ptr<served_model> server::take_model(slot& from) noexcept {
    memory_.bytes -= std::exchange(from.bytes, 0);
    return std::exchange(from.model, nullptr);
}

// Requests find the new ones; the old ones end.
void server::put(std::string_view name, made_models made, const std::map<std::size_t, std::size_t>& its_shares) {
    shares next;
    for (const auto& [version, share] : its_shares) next[version].share = static_cast<std::int64_t>(share);
    std::vector<std::shared_ptr<served_model>> before;
    {
        const std::lock_guard lock(mutex_);
        before.reserve(models_.find(name)->second.size());
        if (next.empty())
            forget_shares(name);
        else
            shares_.insert_or_assign(std::string(name), std::move(next));
        has_shares_ = !shares_.empty();
        hand_over_sequences(models_.find(name)->second, made);
        for (auto& [version, each] : models_.find(name)->second) {
            const auto found = made.find(version);
            if (found == made.end()) {
                each.state.become(model_state::unloading);
                if (each.model) before.push_back(take_model(each));
                continue;
            }
            if (each.state.is(model_state::failed)) each.state.become(model_state::loading);  // meanwhile, its device
            if (each.state.is(model_state::loading)) each.state.become(model_state::ready);
            each.state.note({});
            each.has_failed = false;
            if (each.model) before.push_back(take_model(each));
            each.model = std::move(found->second.model);
            each.bytes = found->second.bytes;
            memory_.bytes += each.bytes;
        }
    }
    for (const auto& each : before) each->close();
    const std::lock_guard lock(mutex_);
    leave_out(models_.find(name)->second, [](std::size_t, slot& each) {
        if (!each.state.is(model_state::unloading)) return false;
        each.state.become(model_state::unloaded);
        return true;
    });
}

std::size_t server::models_count() const {
    const std::lock_guard lock(mutex_);
    return models_.size();
}

void server::load(std::string_view name) { load_now(name, false); }

// What only a request has asked for is in no list when its load has failed.
void server::load_now(std::string_view name, bool is_for_request) {
    if (!source_.has(name)) refuse_unknown(name);
    const std::lock_guard one_at_a_time(loading_);
    if (is_for_request && has_model(name)) return;
    const bool is_new = is_for_request && !is_known(name);
    std::map<std::size_t, std::size_t> its_shares;
    made_models made;
    try {
        begin_load(name);
        made = make_versions(std::string(name), its_shares, !is_new);
        // What a trial has prepared makes the first requests fast, and takes memory and a queue of the device.
        if (models_count() > most_warm_models)
            for (const auto& [version, each] : made) each.model->give_back_if_idle(std::chrono::milliseconds(0));
        if (loads_ && options_.most_bytes != 0) make_room(name, made);
        put(name, std::move(made), its_shares);
    } catch (...) {
        if (is_new) forget_failed(name);
        const std::lock_guard lock(mutex_);
        if (const auto found = models_.find(name); found != models_.end()) fail_loading(found->second);
        throw;
    }
    ++changes_;
    if (!is_for_request) return;
    const std::lock_guard lock(mutex_);
    ++memory_.on_demand;
}

void server::unload(std::string_view name) {
    const std::lock_guard one_at_a_time(loading_);
    std::vector<std::shared_ptr<served_model>> before;
    {
        const std::lock_guard lock(mutex_);
        const auto found = models_.find(name);
        if (found == models_.end())
            throw refusal(refusal_kind::not_found, "the model " + in_quotes(name) + " is not loaded");
        before.reserve(found->second.size());
        for (auto& [version, each] : found->second) {
            each.state.become(model_state::unloading);
            each.has_failed = false;
            if (each.model) before.push_back(take_model(each));
        }
    }
    for (const auto& each : before) each->close();
    {
        const std::lock_guard lock(mutex_);
        const auto found = models_.find(name);
        for (auto& [version, each] : found->second) each.state.become(model_state::unloaded);
        models_.erase(found);
        forget_shares(name);
    }
    ++changes_;
    say(log_level::info, "model_unloaded", "model " + in_quotes(name) + " is unloaded", name);
}

std::shared_ptr<served_model> server::find(std::string_view name, std::optional<std::size_t> version) const {
    std::string why;
    bool is_loading = false;
    {
        const std::lock_guard lock(mutex_);
        const auto found = models_.find(name);
        if (found == models_.end()) refuse_unknown(name);
        bool is_answering = false;
        for (auto each = found->second.rbegin(); each != found->second.rend(); ++each) {
            const auto& [number, its] = *each;
            is_answering = is_answering || its.model;
            if (version && number != 0 && number != *version) continue;
            if (its.model && (!version || number == *version)) return its.model;
            is_loading = is_loading || its.state.is(model_state::loading);
            if (its.state.is(model_state::failed)) why = "is not loaded: " + its.state.reason();
        }
        if (is_answering && why.empty() && !is_loading) {
            throw refusal(refusal_kind::not_found, "the model " + in_quotes(name) + " is not loaded in version " +
                                                       std::to_string(version.value_or(0)));
        }
    }
    if ((why.empty() && !is_loading) || !source_.has(name)) refuse_unknown(name);
    if (is_loading) throw refusal::for_now("the model " + in_quotes(name) + " is being loaded");
    throw refusal(refusal_kind::unavailable, "the model " + in_quotes(name) + " " + why);
}

// Of versions that answer: a share of one that has failed goes to the others. Empty: no version has a share, or none of
// these answers.
std::shared_ptr<served_model> server::next_by_share(std::string_view name) const {
    const std::lock_guard lock(mutex_);
    const auto found = shares_.find(name);
    if (found == shares_.end()) return nullptr;
    const slots& its = models_.find(name)->second;
    std::shared_ptr<served_model> best;
    version_share* payer = nullptr;
    std::int64_t all = 0;
    for (auto& [version, each] : found->second) {
        const auto at = its.find(version);
        if (at == its.end() || !at->second.model || at->second.model->is_lost()) continue;
        all += each.share;
        each.credit += each.share;
        if (payer != nullptr && each.credit <= payer->credit) continue;
        payer = &each;
        best = at->second.model;
    }
    if (payer != nullptr) payer->credit -= all;
    return best;
}

std::shared_ptr<served_model> server::find_for_request(std::string_view name,
                                                       std::optional<std::size_t> version) const {
    if (!version && has_shares_)
        if (std::shared_ptr<served_model> next = next_by_share(name)) return next;
    return find(name, version);
}

void server::require_version(std::string_view name) const {
    const std::lock_guard lock(mutex_);
    if (!shares_.contains(name)) return;
    throw refusal(refusal_kind::bad_request,
                  "versions of the model " + in_quotes(name) +
                      " have shares of the requests: a step of a sequence names its version");
}

std::vector<std::size_t> server::versions_of(std::string_view name) const {
    const std::lock_guard lock(mutex_);
    std::vector<std::size_t> all;
    const auto found = models_.find(name);
    if (found == models_.end()) return all;
    for (const auto& [version, each] : found->second)
        if (each.model) all.push_back(version);
    return all;
}

std::vector<std::shared_ptr<served_model>> server::all() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<served_model>> models;
    for (const auto& [name, its] : models_)
        for (const auto& [version, each] : its)
            if (each.model) models.push_back(each.model);
    return models;
}

void server::give_back_idle(std::chrono::milliseconds idle) const {
    if (models_count() <= most_warm_models) return;
    for (const auto& each : all()) each->give_back_if_idle(idle);
}

// Called with the lock: those of which nothing answers, because it has failed; also while they are loaded again.
std::vector<std::string> server::failed_models() const {
    std::vector<std::string> names;
    for (const auto& [name, its] : models_) {
        const auto has_model = [](const auto& each) { return each.second.model != nullptr; };
        const auto has_failed = [](const auto& each) { return each.second.has_failed; };
        if (std::ranges::none_of(its, has_model) && std::ranges::any_of(its, has_failed)) names.push_back(name);
    }
    return names;
}

std::vector<index_entry> server::known() const {
    std::vector<index_entry> rows;
    std::vector<std::string> failed;
    {
        const std::lock_guard lock(mutex_);
        for (auto& [name, its] : models_) {
            for (auto& [version, each] : its) {
                look_at_device(each);
                rows.push_back({name, version, each.state.now(), each.state.reason()});
            }
        }
        failed = failed_models();
    }
    for (const std::string& name : failed)  // the system is asked without the lock
        if (!source_.has(name)) std::erase_if(rows, [&](const index_entry& each) { return each.name == name; });
    return rows;
}

std::vector<index_entry> server::index() const {
    std::vector<std::string> names = source_.names();
    std::vector<index_entry> rows = known();
    std::erase_if(
        names, [&](const std::string& each) { return std::ranges::binary_search(rows, each, {}, &index_entry::name); });
    std::ranges::sort(names);
    std::vector<index_entry> others, all;
    for (std::string& name : names) others.push_back({std::move(name), 0, model_state::unloaded, "unloaded"});
    const auto goes_first = [](const index_entry& a, const index_entry& b) { return a.name < b.name; };
    std::merge(std::move_iterator(rows.begin()), std::move_iterator(rows.end()), std::move_iterator(others.begin()),
               std::move_iterator(others.end()), std::back_inserter(all), goes_first);
    return all;
}

bool server::is_ready() const {
    std::vector<std::string> failed;
    {
        const std::lock_guard lock(mutex_);
        if (is_draining_) return false;
        for (auto& [name, its] : models_) {
            for (auto& [version, each] : its) {
                look_at_device(each);
                if (each.model && each.has_failed) return false;
            }
        }
        failed = failed_models();
    }
    return std::ranges::none_of(failed, [&](const std::string& name) { return source_.has(name); });
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

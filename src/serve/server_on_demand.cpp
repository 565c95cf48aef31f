// SPDX-License-Identifier: Apache-2.0
// Models that are loaded when something asks for them, and put out when others need their room.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/awaited_loads.hpp"
#include "serve/wanted_versions.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/serve/refusal.hpp"
#include "sluice/serve/server.hpp"

namespace sluice::serve {
namespace {

constexpr std::size_t most_idle_listed = 64;  // models that may be put out, of one look at all

}  // namespace

bool server::has_model(std::string_view name) const {
    const std::lock_guard lock(mutex_);
    const auto found = models_.find(name);
    return found != models_.end() &&
           std::ranges::any_of(found->second, [](const auto& each) { return each.second.model != nullptr; });
}

bool server::is_known(std::string_view name) const {
    const std::lock_guard lock(mutex_);
    return models_.contains(name);
}

bool server::is_loading(std::string_view name) const {
    const std::lock_guard lock(mutex_);
    const auto found = models_.find(name);
    return found != models_.end() && std::ranges::any_of(found->second, [](const auto& each) {
               return each.second.state.is(model_state::loading);
           });
}

bool server::load_for_request(std::string_view name, const std::function<void()>& then) {
    if (!loads_ || has_model(name)) return false;
    if (loads_->join(name, then)) return true;
    if (has_model(name)) return false;  // meanwhile
    if (const std::string why = loads_->failure_of(name); !why.empty())
        throw refusal(refusal_kind::unavailable, "the model " + in_quotes(name) + " is not loaded: " + why);
    if (!source_.has(name)) return false;
    loads_->begin(name, then);
    return true;
}

bool server::comes_on_demand(std::string_view name, std::optional<std::size_t> version) const {
    if (!loads_ || is_known(name) || !loads_->failure_of(name).empty() || !source_.has(name)) return false;
    if (!version) return true;
    try {
        const model_files files = source_.find(name);
        const std::vector<model_version> wanted = wanted_versions(files, config_of(files));
        return std::ranges::find(wanted, *version, &model_version::version) != wanted.end();
    } catch (const error&) {  // its load would fail
        return false;
    }
}

// A model may be put out between the two questions.
template <typename Find>
std::shared_ptr<served_model> server::find_or_wait(std::string_view name, const std::function<void()>& then,
                                                   const Find& find) {
    if (!loads_) return find();
    while (true) {
        if (load_for_request(name, then)) return nullptr;
        try {
            return find();
        } catch (const refusal& why) {
            if (why.kind() != refusal_kind::not_found || is_known(name) || !source_.has(name)) throw;
        }
    }
}

std::shared_ptr<served_model> server::find(std::string_view name, std::optional<std::size_t> version,
                                           const std::function<void()>& then) {
    return find_or_wait(name, then, [&] { return find(name, version); });
}

std::shared_ptr<served_model> server::find_for_request(std::string_view name, std::optional<std::size_t> version,
                                                       const std::function<void()>& then) {
    return find_or_wait(name, then, [&] { return find_for_request(name, version); });
}

// Why it has failed.
std::string server::load_on_demand(const std::string& name) noexcept {
    try {
        load_now(name, true);
        return {};
    } catch (const std::exception& failure) {
        try {
            return printable(failure.what());
        } catch (const std::exception&) {
            return "no memory";  // short enough to lie in the string itself
        }
    }
}

// Called with loading_: in no list before, it is in none now.
void server::forget_failed(std::string_view name) noexcept {
    const std::lock_guard lock(mutex_);
    if (const auto found = models_.find(name); found != models_.end()) models_.erase(found);
}

// Called with the lock. The next ones that may be put out.
void server::list_idle(std::string_view except) {
    idle_.clear();
    const auto latest = std::chrono::steady_clock::now() - options_.least_idle;
    for (const auto& [name, its] : models_) {
        idle_model one;
        bool may_go = false;
        for (const auto& [version, each] : its) {
            if (!each.model) continue;
            may_go = !each.model->config().resident;
            if (!may_go) break;
            one.asked = std::max(one.asked, each.model->last_asked());
        }
        if (!may_go || name == except || one.asked > latest) continue;
        one.name = name;
        idle_.push_back(std::move(one));
    }
    const auto first = [](const idle_model& a, const idle_model& b) { return a.asked < b.asked; };
    const std::size_t most = std::min(most_idle_listed, idle_.size());
    std::ranges::partial_sort(idle_, idle_.begin() + static_cast<std::ptrdiff_t>(most), first);
    idle_.resize(most);
    std::ranges::reverse(idle_);
}

// Called with the lock. False: it was asked for meanwhile, computes, or has live sequences.
bool server::put_out(const idle_model& which, std::string_view except,
                     std::vector<std::shared_ptr<served_model>>& gone) {
    const auto found = models_.find(which.name);
    if (found == models_.end() || which.name == except) return false;
    std::vector<served_model*> retired;
    retired.reserve(found->second.size());
    gone.reserve(gone.size() + found->second.size());  // nothing below lacks memory
    bool may_go = true;
    for (auto& [version, each] : found->second) {
        if (!each.model) continue;
        may_go = each.model->last_asked() <= which.asked && each.model->retire();
        if (!may_go) break;
        retired.push_back(each.model.get());
    }
    if (!may_go || retired.empty()) {
        for (served_model* const each : retired) each->stay();
        return false;
    }
    for (auto& [version, each] : found->second)
        if (each.model) gone.push_back(take_model(each));
    models_.erase(found);
    forget_shares(which.name);
    ++memory_.put_out;
    return true;
}

// Called with loading_. For what was made for the model, in the place of what it has.
void server::make_room(std::string_view name, const made_models& made) {
    std::vector<std::shared_ptr<served_model>> gone;
    std::size_t bytes = 0, before = 0;
    for (const auto& [version, each] : made) bytes += each.bytes;
    {
        const std::lock_guard lock(mutex_);
        for (const auto& [version, each] : models_.find(name)->second) before += each.bytes;
        bool is_listed = false;
        while (memory_.bytes != before && memory_.bytes - before + bytes > options_.most_bytes) {
            if (idle_.empty()) {
                if (std::exchange(is_listed, true)) break;  // all that are left are in use
                list_idle(name);
                if (idle_.empty()) break;
            }
            const idle_model next = std::move(idle_.back());
            idle_.pop_back();
            if (put_out(next, name, gone)) is_listed = false;
        }
    }
    for (const auto& each : gone) each->close();
    for (const auto& each : gone)
        say(log_level::info, "model_put_out",
            "model " + in_quotes(each->name()) + ", version " + std::to_string(each->version()) +
                ", is put out: others were asked for since",
            each->name());
    changes_ += gone.empty() ? 0 : 1;
}

models_memory server::memory() const {
    const std::lock_guard lock(mutex_);
    return memory_;
}

}  // namespace sluice::serve

// SPDX-License-Identifier: Apache-2.0
// server: the models that are served: loaded, replaced and unloaded while requests arrive. It knows no protocol and no
// device; a front end (http_front) takes requests for it, and an engine computes.
//
//     serve::network_engine engine({.device = "auto"});
//     serve::server models(serve::model_source::repository("models"), engine);
//     models.load_all();
//     models.find("digits")->submit(call);
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/serve/engine.hpp"
#include "sluice/serve/log.hpp"
#include "sluice/serve/model_files.hpp"
#include "sluice/serve/model_state.hpp"
#include "sluice/serve/request_timeline.hpp"
#include "sluice/serve/served_model.hpp"

namespace sluice::serve {

// A model in the list of all: one row for each version that is loaded, comes or goes, or has failed.
struct index_entry {
    std::string name;                           // of the model
    std::size_t version = 0;                    // 0: not known
    model_state state = model_state::unloaded;  // where it is
    std::string reason;  // why it is not ready; of one that is ready, why loading it again has failed
};

class server {
public:
    // `engine` must outlive the server. Costs moves of its arguments.
    server(model_source source, engine& engine, log_sink log = {});
    server(const server&) = delete;  // models are handed out by it
    server& operator=(const server&) = delete;
    ~server();  // blocks until what was accepted is answered

    // Loads each model of the source, those that stay on a GPU last. Blocks. Throws the first failure, with the model's
    // name. Costs what load costs for each model.
    void load_all();
    // Loads the model, or again what its files and configuration are now. Requests meanwhile are answered by the
    // version that was there before; it ends when its last request is answered. Blocks. Throws refusal (not_found), and
    // what loading throws; then what was loaded stays, and a version that was not has failed. Costs what the engine's
    // load and served_model::make cost for each version.
    void load(std::string_view name);
    // Requests that were accepted are answered. A model that has failed is forgotten. Blocks. Throws refusal
    // (not_found) for a model that is neither loaded nor has failed. Costs what served_model::close costs for each
    // version.
    void unload(std::string_view name);

    // The version of the model, or without one its latest. Throws refusal: not_found, or unavailable for a model that
    // is being loaded or has failed to load. Costs O(log models + versions), and for one that has failed a question to
    // the system.
    std::shared_ptr<served_model> find(std::string_view name, std::optional<std::size_t> version = {}) const;
    // The versions that are loaded, ascending; empty for a model that is not. Costs O(log models + versions).
    std::vector<std::size_t> versions_of(std::string_view name) const;
    // The loaded versions of all models. Costs O(versions of all models).
    std::vector<std::shared_ptr<served_model>> all() const;
    // The versions that are loaded, come or go, or have failed, by name and version. A failed model whose folder has
    // been removed is in no list. Costs O(versions of all models), and a question to the system for each failed model.
    std::vector<index_entry> known() const;
    // These, and the models of the source that are not loaded. Costs what known() and model_source::names cost, and
    // O(n log n) for the order of n rows.
    std::vector<index_entry> index() const;

    // Whether each model answers, and begin_drain() was not called: no device of a version that answers has failed, and
    // no model has failed without another version that answers. A failed model counts until it is loaded, unloaded or
    // removed from the source; one that is being loaded or unloaded does not count. Costs what known() costs.
    bool is_ready() const;
    // From now on front ends refuse new requests, and is_ready() is false. Costs O(1), and a line of the log.
    void begin_drain();
    bool is_draining() const;  // whether begin_drain() was called; costs O(1)

    // Loads and unloads that have ended well. Costs O(1).
    std::uint64_t changes() const noexcept { return changes_.load(std::memory_order_relaxed); }
    // The last requests, which front ends add.
    request_timeline& timeline() noexcept { return timeline_; }

private:
    struct slot {
        version_state state;
        std::shared_ptr<served_model> model;  // empty: nothing answers
    };
    using slots = std::map<std::size_t, slot>;  // by version; 0: the version is not known
    using made_models = std::map<std::size_t, std::shared_ptr<served_model>>;

    void begin_load(std::string_view name);
    void expect(std::string_view name, const std::vector<model_version>& wanted);
    made_models make_versions(const std::string& name);
    void note_failed_load(std::string_view name, std::size_t version, const std::string& why);
    static void hand_over_sequences(const slots& before, const made_models& made);
    void put(std::string_view name, made_models made);
    void look_at_device(slot& of) const;
    std::vector<std::string> failed_models() const;
    void say(log_level level, std::string event, std::string message, std::string_view model) const;

    const model_source source_;
    engine& engine_;
    const log_sink log_;
    mutable std::mutex mutex_;                                  // of what follows
    std::mutex loading_;                                        // one load or unload at a time
    mutable std::map<std::string, slots, std::less<>> models_;  // a failed device is noted by the thread that looks
    bool is_draining_ = false;
    std::atomic<std::uint64_t> changes_{0};
    request_timeline timeline_;
};

}  // namespace sluice::serve

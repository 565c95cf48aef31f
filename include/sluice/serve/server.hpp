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
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
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

class awaited_loads;

// How models come into memory, and go.
struct server_options {
    // A model is loaded when something asks for it first (load_for_request), and load_all() loads only those that stay
    // on a GPU.
    bool loads_on_demand = false;
    // With loads_on_demand: what the files of all loaded versions may have, with `beside_files` more for each. Beyond
    // it, models that were not asked for longest are put out, but none that computes, has live sequences or stays on a
    // GPU. 0: no bound.
    std::size_t most_bytes = 0;
    std::chrono::milliseconds least_idle{100};             // without a request, until a model may be put out
    static constexpr std::size_t beside_files = 64 << 10;  // bytes that a version takes above its files, about
    // A folder that replicas share, each with the same models and names of clients: a step's state is there before its
    // answer, so any of them makes the next step. Versions that are served together have states of their own. Other
    // users must not write there. Empty: states are in memory.
    std::filesystem::path states = {};
};

// What the loaded models have, as server_options counts it.
struct models_memory {
    std::size_t bytes = 0;        // now
    std::uint64_t on_demand = 0;  // loads that requests have waited for
    std::uint64_t put_out = 0;    // models, because of the bound
};

// A model in the list of all: one row for each version that is loaded, comes or goes, or has failed.
struct index_entry {
    std::string name;                           // of the model
    std::size_t version = 0;                    // 0: not known
    model_state state = model_state::unloaded;  // where it is
    std::string reason;  // why it is not ready; of one that is ready, why loading it again has failed
};

class server {
public:
    // `engine` must outlive the server. Throws errc::invalid_argument for `most_bytes` without loads_on_demand, and
    // file_error for a folder of states that is not there or that any user may write. Costs moves of its arguments; on
    // demand, a thread that loads.
    server(model_source source, engine& engine, log_sink log = {}, const server_options& options = {});
    server(const server&) = delete;  // models are handed out by it
    server& operator=(const server&) = delete;
    ~server();  // blocks until what was accepted is answered

    // Loads each model of the source, those that stay on a GPU last; on demand, only these. Blocks. Throws the first
    // failure, with the model's name. Costs what load costs for each model.
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

    // Where models are loaded on demand, for what waits for its model. True: it is being loaded, and `then` is called
    // when that has ended, well or not, on the thread that loads; it must not block nor throw. False: find() answers.
    // Throws refusal (unavailable) for a model whose load has just failed. Costs O(log models); for a model that is not
    // loaded, a question to the system.
    bool load_for_request(std::string_view name, const std::function<void()>& then);
    // As find() and find_for_request(); null: the model is being loaded, as load_for_request() says.
    std::shared_ptr<served_model> find(std::string_view name, std::optional<std::size_t> version,
                                       const std::function<void()>& then);
    std::shared_ptr<served_model> find_for_request(std::string_view name, std::optional<std::size_t> version,
                                                   const std::function<void()>& then);
    // Whether a request would load the model, and this version of it: it is in the source, not loaded, and no load of
    // it has failed just now. Costs what load_for_request costs, and with a version a read of the model's
    // configuration.
    bool comes_on_demand(std::string_view name, std::optional<std::size_t> version = {}) const;
    // Whether a version of the model is in the lists. Costs O(log models).
    bool is_known(std::string_view name) const;
    bool is_loading(std::string_view name) const;  // whether a version of it is; costs O(log models)
    bool loads_on_demand() const noexcept { return loads_ != nullptr; }  // as the options say; costs O(1)
    models_memory memory() const;                                        // costs O(1)

    // The version of the model, or without one its latest. Throws refusal: not_found, or unavailable for a model that
    // is being loaded or has failed to load. Costs O(log models + versions), and for one that has failed a question to
    // the system.
    std::shared_ptr<served_model> find(std::string_view name, std::optional<std::size_t> version = {}) const;
    // For a request: as find(), but where none is named, and the configuration gives versions shares, one of these in
    // its turn, as long as it answers.
    std::shared_ptr<served_model> find_for_request(std::string_view name, std::optional<std::size_t> version) const;
    // Throws refusal (bad_request) where versions of the model have shares: a step of a sequence that names none would
    // come to another version than the step before it. Costs O(log models).
    void require_version(std::string_view name) const;
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
    // no model has failed without another version that answers. A failed model counts until a load of it ends well,
    // also while it is being loaded, or it is unloaded or removed from the source. One that is loaded for the first
    // time does not count. Costs what known() costs.
    bool is_ready() const;
    // From now on front ends refuse new requests, and is_ready() is false. Costs O(1), and a line of the log.
    void begin_drain();
    bool is_draining() const;  // whether begin_drain() was called; costs O(1)

    // Where there are more than most_warm_models: gives up memory that models keep between runs, of those that were not
    // asked for this time. Costs O(versions of all models).
    void give_back_idle(std::chrono::milliseconds idle) const;

    // Loads and unloads that have ended well. Costs O(1).
    std::uint64_t changes() const noexcept { return changes_.load(std::memory_order_relaxed); }
    // The last requests, which front ends add.
    request_timeline& timeline() noexcept { return timeline_; }

private:
    struct slot {
        version_state state;
        std::shared_ptr<served_model> model;  // empty: nothing answers
        bool has_failed = false;              // since its last good load; also while it is loaded again
        std::size_t bytes = 0;                // of its files; 0 without a model
    };
    using slots = std::map<std::size_t, slot>;  // by version; 0: the version is not known
    struct made_model {
        std::shared_ptr<served_model> model;
        std::size_t bytes = 0;
    };
    using made_models = std::map<std::size_t, made_model>;
    struct idle_model {
        std::chrono::steady_clock::time_point asked;
        std::string name;
    };
    // Of requests that name no version. Smooth weighted round-robin, as nginx has it: each turn adds to each credit its
    // share, and the version with the most pays all shares.
    struct version_share {
        std::int64_t share = 0, credit = 0;
    };
    using shares = std::map<std::size_t, version_share>;  // by version

    std::size_t models_count() const;
    void begin_load(std::string_view name);
    void expect(std::string_view name, const std::vector<model_version>& wanted);
    void load_now(std::string_view name, bool is_for_request);
    std::filesystem::path states_of(const model_version& which, std::size_t versions) const;
    made_models make_versions(const std::string& name, std::map<std::size_t, std::size_t>& its_shares, bool counts);
    void note_failed_load(std::string_view name, std::size_t version, const std::string& why, bool counts);
    static void hand_over_sequences(const slots& before, const made_models& made);
    std::shared_ptr<served_model> take_model(slot& from) noexcept;
    bool has_model(std::string_view name) const;
    std::string load_on_demand(const std::string& name) noexcept;
    void make_room(std::string_view name, const made_models& made);
    void list_idle(std::string_view except);
    bool put_out(const idle_model& which, std::string_view except, std::vector<std::shared_ptr<served_model>>& gone);
    template <typename Find>
    std::shared_ptr<served_model> find_or_wait(std::string_view name, const std::function<void()>& then,
                                               const Find& find);
    void forget_failed(std::string_view name) noexcept;
    void put(std::string_view name, made_models made, const std::map<std::size_t, std::size_t>& its_shares);
    void forget_shares(std::string_view name) noexcept;
    std::shared_ptr<served_model> next_by_share(std::string_view name) const;
    void look_at_device(slot& of) const;
    std::vector<std::string> failed_models() const;
    void say(log_level level, std::string event, std::string message, std::string_view model) const;

    const model_source source_;
    engine& engine_;
    const log_sink log_;
    mutable std::mutex mutex_;                                   // of what follows
    std::mutex loading_;                                         // one load or unload at a time
    mutable std::map<std::string, slots, std::less<>> models_;   // a failed device is noted by the thread that looks
    mutable std::map<std::string, shares, std::less<>> shares_;  // of models that have some
    std::atomic<bool> has_shares_{false};                        // shares_ is not empty; written with the lock
    bool is_draining_ = false;
    std::atomic<std::uint64_t> changes_{0};
    request_timeline timeline_;
    const server_options options_;
    models_memory memory_;                  // with mutex_
    std::vector<idle_model> idle_;          // with mutex_: who may be put out next, the last one first
    std::unique_ptr<awaited_loads> loads_;  // empty: not on demand; it ends before what it uses
};

}  // namespace sluice::serve

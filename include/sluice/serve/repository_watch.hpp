// SPDX-License-Identifier: Apache-2.0
// repository_watch: loads what changes in a repository that something else syncs, and unloads what goes.
//
//     const auto source = serve::model_source::repository("models");
//     serve::server models(source, engine);
//     serve::repository_watch watch(source, {.interval = 5s});  // what is there now is known
//     models.load_all();
//     watch.start(models);
//
// A model has changed when its files have other names, lengths, inodes or times than at its last load; where it is the
// one of that load, and the contents are known, also other contents. Files that still change between two looks are not
// loaded, nor is a new folder without a model file. Names that begin with '.' are not looked at, as those of copies
// that are running. A load that fails is tried again, after twice the time each time. A new model whose load fails is
// in the log, and not in the index: the server stays ready. A repository that cannot be read, or has no model any more,
// changes nothing. A server that loads on demand loads what it does not have when a request asks for it.
//
// Thread safety: for one thread; it has a thread of its own, which loads and unloads.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "sluice/serve/log.hpp"
#include "sluice/serve/model_files.hpp"
#include "sluice/serve/server.hpp"

namespace sluice::serve {

// How a repository is watched.
struct repository_watch_options {
    std::chrono::milliseconds interval{5000};  // between two looks
    // Whether files with the contents of the last load count as changed: where the engine reads them again later, as
    // worker processes do when they start again.
    bool loads_same_contents = false;
    log_sink log = {};  // empty: nothing is written
};

class repository_watch {
public:
    // Looks at the repository: what is there counts as loaded. Throws errc::invalid_argument for models that are files
    // by name and for an interval of zero or less, and what reading the folder throws. Costs a question to the system
    // for each file.
    repository_watch(model_source source, repository_watch_options options);
    repository_watch(const repository_watch&) = delete;  // its thread knows its address
    repository_watch& operator=(const repository_watch&) = delete;
    ~repository_watch();  // stops it, and blocks until a load that has begun has ended

    // From now on it looks at each interval. `models`, of the same source, must outlive this. Called once, if at all.
    // Costs a thread.
    void start(server& models);
    // Begins nothing more, and waits at most for this time for what has begun. False: it has not ended.
    bool stop(std::chrono::milliseconds at_most);
    // One look, as its thread does it. Not together with start(). Costs what the loads cost, and a question to the
    // system for each file.
    void look(server& models);

private:
    using clock = std::chrono::steady_clock;
    // Of each file of a model: a line with its name and state. None: it cannot be read now.
    using files_print = std::optional<std::vector<std::string>>;
    struct known_model {
        files_print last;                             // that was seen
        files_print loaded;                           // at the last load
        std::optional<std::uint64_t> contents = {};   // of these files
        std::weak_ptr<const served_model> made = {};  // by that load
        clock::time_point not_before{};               // of the next try, after one that has failed
        std::chrono::milliseconds delay{0};           // before that
        std::string said = {};                        // in the log, of the last of these
        bool is_gone = false;                         // when it was looked at last
    };
    struct walk;

    files_print print_of(const std::string& name) const;
    std::optional<std::uint64_t> contents_of(const std::string& name) const;
    bool is_there(const std::string& name) const;
    bool ends() const noexcept { return ends_; }
    void begin(const server& models);
    void run(server& models) noexcept;
    void look_at(server& models, const std::string& name, known_model& its);
    void load(server& models, const std::string& name, known_model& its);
    void unload_gone(server& models, const std::vector<std::string>& names);
    void say_unread(const std::string& why);

    const model_source source_;
    const repository_watch_options options_;
    std::map<std::string, known_model> known_;  // of its thread, when that has started
    std::string last_failure_;
    bool has_begun_ = false;
    std::atomic<bool> ends_{false};
    bool has_ended_ = true;  // with the mutex
    std::mutex mutex_;
    std::condition_variable changed_;
    std::thread looking_;
};

}  // namespace sluice::serve

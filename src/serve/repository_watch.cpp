// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/repository_watch.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <functional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/io/regular_file.hpp"
#include "sluice/serve/refusal.hpp"

namespace sluice::serve {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_files_of_a_model = 10'000;
constexpr std::size_t hashed_bytes = std::size_t{1} << 20;  // at a time
constexpr std::chrono::milliseconds first_delay{10'000};    // of a load that has failed
constexpr std::chrono::milliseconds longest_delay_of_load{600'000};

std::uint64_t mixed(std::uint64_t so_far, std::string_view more) {
    return (so_far ^ std::hash<std::string_view>()(more)) * 0x9e37'79b9'7f4a'7c15U + 1;
}

// The model that answers now; empty: none does.
std::shared_ptr<const served_model> answering(const server& models, const std::string& name) {
    try {
        return models.find(name);
    } catch (const refusal&) {
        return nullptr;
    }
}

}  // namespace

// The files below a model's folder, in the order of their names. A link out of the repository is passed over, unless
// links are followed, as source.find() refuses it. A folder is looked into once.
struct repository_watch::walk {
    struct file {
        std::string place;
        fs::path path;
        struct stat state{};
    };

    explicit walk(const model_source& source, const std::string& name)
        : follows_links(source.follows_links()), root(fs::canonical(source.folder())) {
        add(source.folder() / name, {});
        std::ranges::sort(files, {}, &file::place);
    }

    bool is_allowed(const fs::path& path) const {
        if (follows_links) return true;
        std::error_code failure;
        const fs::path real = fs::canonical(path, failure);
        return !failure && std::mismatch(root.begin(), root.end(), real.begin(), real.end()).first == root.end();
    }

    void add(const fs::path& folder, const std::string& below) {
        struct stat of{};
        if (::stat(folder.c_str(), &of) != 0) throw std::system_error(errno, std::generic_category(), folder.string());
        if (!seen.emplace(of.st_dev, of.st_ino).second) return;
        for (const auto& each : fs::directory_iterator(folder)) {
            const std::string name = each.path().filename().string();
            if (name.starts_with('.') || (each.is_symlink() && !is_allowed(each.path()))) continue;
            file its{.place = below + name, .path = each.path()};
            if (::stat(its.path.c_str(), &its.state) != 0) continue;  // it has gone
            if (S_ISDIR(its.state.st_mode)) add(its.path, its.place + "/");
            if (!S_ISREG(its.state.st_mode)) continue;
            if (files.size() == most_files_of_a_model)
                throw error(errc::unsupported,
                            "the folder has more than " + std::to_string(most_files_of_a_model) + " files");
            files.push_back(std::move(its));
        }
    }

    const bool follows_links;
    const fs::path root;
    std::set<std::pair<dev_t, ino_t>> seen;
    std::vector<file> files;
};

repository_watch::repository_watch(model_source source, repository_watch_options options)
    : source_(std::move(source)), options_(std::move(options)) {
    if (!source_.is_repository())
        throw error(errc::invalid_argument, "only a repository is watched, and these models are files by name");
    if (options_.interval.count() <= 0)
        throw error(errc::invalid_argument, "a repository is watched at intervals above zero");
    for (const std::string& name : source_.names()) {
        known_model& its = known_[name];
        its.last = print_of(name);
        its.loaded = its.last;
    }
}

repository_watch::~repository_watch() {
    stop(std::chrono::milliseconds(0));
    if (looking_.joinable()) looking_.join();
}

// What answers now is what was there.
void repository_watch::begin(const server& models) {
    if (std::exchange(has_begun_, true)) return;
    for (auto& [name, its] : known_) its.made = answering(models, name);
}

void repository_watch::start(server& models) {
    begin(models);
    has_ended_ = false;
    looking_ = std::thread([this, &models] { run(models); });
}

bool repository_watch::stop(std::chrono::milliseconds at_most) {
    std::unique_lock lock(mutex_);
    ends_ = true;
    changed_.notify_all();
    return changed_.wait_for(lock, at_most, [this] { return has_ended_; });
}

// The time of the last change of the inode is among the states: who writes can set the time of the contents, but not
// this one.
repository_watch::files_print repository_watch::print_of(const std::string& name) const {
    try {
        std::vector<std::string> made;
        const walk all(source_, name);
        for (const auto& [place, path, now] : all.files) {
            std::string line = place;
            for (const auto number :
                 {static_cast<std::int64_t>(now.st_dev), static_cast<std::int64_t>(now.st_ino),
                  static_cast<std::int64_t>(now.st_size), static_cast<std::int64_t>(now.st_ctim.tv_sec),
                  static_cast<std::int64_t>(now.st_ctim.tv_nsec), static_cast<std::int64_t>(now.st_mtim.tv_sec),
                  static_cast<std::int64_t>(now.st_mtim.tv_nsec)})
                line += ' ' + std::to_string(number);
            made.push_back(std::move(line));
        }
        return made;
    } catch (const std::bad_alloc&) {
        throw;
    } catch (const std::exception&) {
        return std::nullopt;
    }
}

// None: a file cannot be read, or the watch ends.
std::optional<std::uint64_t> repository_watch::contents_of(const std::string& name) const {
    try {
        std::uint64_t made = 0;
        std::vector<std::byte> piece(hashed_bytes);
        const walk all(source_, name);
        for (const auto& each : all.files) {
            made = mixed(made, each.place);
            if (each.state.st_size == 0) continue;
            const io::regular_file from(each.path);
            for (std::size_t at = 0; at < from.bytes(); at += hashed_bytes) {
                if (ends()) return std::nullopt;
                const std::span part = std::span(piece).first(std::min(hashed_bytes, from.bytes() - at));
                from.read(at, part);
                made = mixed(made, {reinterpret_cast<const char*>(part.data()), part.size()});
            }
            from.require_unchanged();
        }
        return made;
    } catch (const std::bad_alloc&) {
        throw;
    } catch (const std::exception&) {
        return std::nullopt;
    }
}

void repository_watch::run(server& models) noexcept {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, options_.interval, [this] { return ends(); })) {
        lock.unlock();
        look(models);
        lock.lock();
    }
    has_ended_ = true;
    changed_.notify_all();
}

void repository_watch::say_unread(const std::string& why) {
    if (options_.log && why != last_failure_)
        options_.log({log_level::warn, "repository_not_read", "the repository cannot be looked at: " + why, {}});
    last_failure_ = why;
}

void repository_watch::look(server& models) {
    try {
        begin(models);
        const std::vector<std::string> names = source_.names();
        if (names.empty() && !known_.empty())
            return say_unread("it has no models any more; those that are loaded stay");
        last_failure_.clear();
        unload_gone(models, names);
        for (const std::string& name : names) {
            if (ends()) return;
            look_at(models, name, known_[name]);
        }
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): the next look may have more
    } catch (const std::exception& failure) {
        try {
            say_unread(printable(failure.what()));
        } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): no memory for the line
        }
    }
}

void repository_watch::look_at(server& models, const std::string& name, known_model& its) {
    const files_print now = print_of(name);
    if (now != its.last) {  // it may still be written
        its.last = now;
        its.not_before = {};
        its.delay = {};
        its.said.clear();
        return;
    }
    if (!now || now->empty() || clock::now() < its.not_before) return;
    const auto made = its.made.lock(), answers = answering(models, name);
    const bool is_ours = made != nullptr && made == answers;
    if (models.loads_on_demand() && answers == nullptr) {
        if (models.is_loading(name)) return;  // it may have read what was there before
        if (!models.is_known(name)) {         // the first request loads what is there then
            its.loaded = now;
            return;
        }
    }
    if (now == its.loaded) {
        // What was loaded at the start is read once more, so that its contents are known.
        if (is_ours && !its.contents && !options_.loads_same_contents) its.contents = contents_of(name);
        return;
    }
    if (is_ours && its.contents && !options_.loads_same_contents && contents_of(name) == its.contents) {
        its.loaded = now;
        return;
    }
    load(models, name, its);
}

// What is read afterwards belongs to the load where nothing has changed since.
void repository_watch::load(server& models, const std::string& name, known_model& its) {
    const bool is_new = answering(models, name) == nullptr;
    try {
        if (is_new) source_.find(name);
        models.load(name);
        its.made = answering(models, name);
        its.loaded = its.last;
        its.delay = {};
        its.contents = options_.loads_same_contents ? std::nullopt : contents_of(name);
        if (print_of(name) != its.last) its.contents.reset();
    } catch (const std::exception& failure) {
        its.delay = std::clamp(its.delay * 2, first_delay, longest_delay_of_load);
        its.not_before = clock::now() + its.delay;
        if (!is_new || answering(models, name) != nullptr) return;
        if (const std::string why = printable(failure.what(), 500); options_.log && its.said != why) {
            its.said = why;
            options_.log({log_level::warn, "new_model_not_loaded",
                          "the new model " + in_quotes(name) + " is not loaded: " + why, name});
        }
        try {
            models.unload(name);
        } catch (const refusal&) {  // NOLINT(bugprone-empty-catch): there is nothing to forget
        }
    }
}

bool repository_watch::is_there(const std::string& name) const {
    std::error_code ignored;
    return fs::symlink_status(source_.folder() / name, ignored).type() != fs::file_type::not_found;
}

// What is gone in two looks. A link that leads nowhere is not gone: its volume may come back.
void repository_watch::unload_gone(server& models, const std::vector<std::string>& names) {
    for (auto each = known_.begin(); each != known_.end();) {
        auto& [name, its] = *each;
        const bool is_gone = !std::ranges::binary_search(names, name) && !is_there(name);
        if (!(std::exchange(its.is_gone, is_gone) && is_gone)) {
            ++each;
            continue;
        }
        try {
            models.unload(name);
        } catch (const refusal&) {  // NOLINT(bugprone-empty-catch): it was not loaded
        }
        each = known_.erase(each);
    }
}

}  // namespace sluice::serve

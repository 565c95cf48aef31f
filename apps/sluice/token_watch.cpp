// SPDX-License-Identifier: Apache-2.0
#include "token_watch.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <exception>
#include <utility>

#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::app {
namespace {

constexpr std::chrono::milliseconds look_time{1000};

}  // namespace

token_watch::token_watch(std::filesystem::path file, bool needs_names)
    : file_(std::move(file)), needs_names_(needs_names), used_(stamp_now()), seen_(used_), first_(read(true)) {}

// The time of the last change of the inode, too, which the writer cannot set. A pipe is read once.
token_watch::stamp token_watch::stamp_now() const {
    struct stat its{};
    if (::stat(file_.c_str(), &its) != 0 || !S_ISREG(its.st_mode)) return {};
    return {static_cast<std::int64_t>(its.st_ino), its.st_size, its.st_mtim.tv_sec, its.st_ctim.tv_sec,
            its.st_ctim.tv_nsec};
}

void token_watch::require_readable(const std::string& user) const {
    if (used_ == stamp{} || ::access(file_.c_str(), R_OK) == 0) return;
    throw error(errc::invalid_argument, "--user: " + in_quotes(user) + " must be able to read " +
                                            in_quotes(file_.native()) +
                                            ", because --tokens is read again when it changes: give the file to a "
                                            "group of the user, with the mode 640");
}

// A client's states are found by its name, on another machine too.
std::vector<serve::known_client> token_watch::read(bool waits) const {
    std::vector<serve::known_client> clients = serve::read_clients(file_, waits);
    for (const serve::known_client& each : clients) {
        if (!needs_names_ || each.is_named) continue;
        throw error(errc::invalid_argument, "--states: each client of --tokens needs a name, and " + each.name +
                                                " has none; name=NAME gives it one");
    }
    return clients;
}

void token_watch::look(serve::access_list& clients, const serve::log_sink& log) {
    const auto time = std::chrono::steady_clock::now();
    if (time < next_look_) return;
    next_look_ = time + look_time;
    const stamp now = stamp_now();
    const bool is_still = std::exchange(seen_, now) == now;
    if (now == used_ || !is_still) return;  // it may still be written
    try {
        const std::vector<serve::known_client> read_now = read(false);
        clients.replace(read_now);
        used_ = now;
        said_.clear();
        log({log_level::info,
             "tokens_read",
             "the tokens have changed: there are " + std::to_string(read_now.size()) + " clients",
             {}});
    } catch (const std::exception& failure) {
        const std::string why = printable(failure.what(), 500);
        if (std::exchange(said_, why) == why) return;  // it is tried again each time
        log({log_level::warn,
             "tokens_not_read",
             "the tokens have changed and are not used; those of before hold: " + why,
             {}});
    }
}

}  // namespace sluice::app

// SPDX-License-Identifier: Apache-2.0
// token_watch: looks whether the file of --tokens has changed, and gives its clients to the server.
//
// Thread safety: for one thread.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "sluice/serve/access_list.hpp"
#include "sluice/serve/log.hpp"

namespace sluice::app {

class token_watch {
public:
    // Reads the file. `needs_names`: each client has one in the file. Throws what serve::read_clients throws, and
    // errc::invalid_argument for a client without a name that needs one.
    token_watch(std::filesystem::path file, bool needs_names);

    const std::vector<serve::known_client>& first() const noexcept { return first_; }  // that were read then
    // Throws errc::invalid_argument where the process, which is this user's now, cannot read a file again that it has
    // to.
    void require_readable(const std::string& user) const;
    // At most each second: where the file has changed, and not between the last two looks, `clients` are what it says.
    // What cannot be read or is wrong is in the log, and changes nothing.
    void look(serve::access_list& clients, const serve::log_sink& log);

private:
    using stamp = std::array<std::int64_t, 5>;

    stamp stamp_now() const;
    std::vector<serve::known_client> read(bool waits) const;

    const std::filesystem::path file_;
    const bool needs_names_;
    stamp used_, seen_;
    std::string said_;  // in the log, why the file cannot be used
    const std::vector<serve::known_client> first_;
    std::chrono::steady_clock::time_point next_look_{};
};

}  // namespace sluice::app

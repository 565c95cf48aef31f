// SPDX-License-Identifier: Apache-2.0
// child_process: a worker process as the front sees it: started, killed, and what has become of it.
//
// Thread safety: start it on a thread that lives as long as it does: the system ends it with that thread. All other
// members belong to one thread at a time.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace sluice::serve {

class child_process {
public:
    // Runs the program, which is not looked for in PATH, with these two descriptors (given_descriptors.hpp), standard
    // error and no others. SIGINT, SIGTERM and SIGHUP do not reach it: a terminal and service managers send them to all
    // processes, and the front still needs it. Throws error (errc::io_failed) when it cannot be started.
    child_process(const std::vector<std::string>& command, int control, int memory);
    child_process(const child_process&) = delete;  // it owns a process
    child_process& operator=(const child_process&) = delete;
    // Kills it, and does not wait: a process that has not ended by then is left to the system.
    ~child_process();

    pid_t id() const noexcept { return id_; }
    void kill() noexcept;
    // How it has ended, if it has: "signal 9 (Killed) ended it". Does not block.
    std::optional<std::string> look_for_end();

private:
    pid_t id_ = -1;
    bool is_reaped_ = false;
};

}  // namespace sluice::serve

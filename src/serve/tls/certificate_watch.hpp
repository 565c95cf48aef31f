// SPDX-License-Identifier: Apache-2.0
// certificate_watch: the context for new connections with TLS. It reads the files again when they have changed.
//
// Thread safety: all members on any thread.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "serve/tls/tls_context.hpp"
#include "sluice/serve/log.hpp"

namespace sluice::serve {

class certificate_watch {
public:
    using clock = std::chrono::steady_clock;

    // Reads the files; throws as tls_context::of_server does.
    certificate_watch(tls_files files, log_sink log, protocol_of_tls speaks = protocol_of_tls::http_1_1);

    std::shared_ptr<const tls_context> context() const;
    // True, for one caller, when it is time to look at the files again.
    bool is_due(clock::time_point now);
    // Looks; where a file has changed and stays as it is, reads all of them. Connections that exist keep what they
    // have. Files that are wrong go to the log, and new connections get what the last right ones were.
    void look();

private:
    // Of a file: which it is, how long, and when it was changed.
    using stamp = std::array<std::int64_t, 4>;
    using stamps = std::array<stamp, 3>;
    stamps stamps_now() const;

    const tls_files files_;
    const log_sink log_;
    const protocol_of_tls speaks_;
    mutable std::mutex mutex_;
    std::shared_ptr<const tls_context> context_;
    stamps used_;  // of the files that were read last
    stamps seen_;  // at the last look
    clock::time_point next_look_;
};

}  // namespace sluice::serve

// SPDX-License-Identifier: Apache-2.0
#include "serve/tls/certificate_watch.hpp"

#include <sys/stat.h>

#include <exception>
#include <utility>

#include "sluice/base/printable.hpp"

namespace sluice::serve {
namespace {

constexpr std::chrono::milliseconds look_time{1000};

}  // namespace

certificate_watch::certificate_watch(tls_files files, log_sink log, protocol_of_tls speaks)
    : files_(std::move(files)),
      log_(std::move(log)),
      speaks_(speaks),
      used_(stamps_now()),
      seen_(used_),
      next_look_(clock::now() + look_time) {
    context_ = tls_context::of_server(files_, speaks_);
}

certificate_watch::stamps certificate_watch::stamps_now() const {
    stamps now{};
    std::size_t at = 0;
    for (const auto* each : {&files_.certificate, &files_.key, &files_.client_ca}) {
        struct stat state{};
        if (!each->empty() && ::stat(each->c_str(), &state) == 0)
            now[at] = {static_cast<std::int64_t>(state.st_ino), state.st_size, state.st_mtim.tv_sec,
                       state.st_mtim.tv_nsec};
        ++at;
    }
    return now;
}

std::shared_ptr<const tls_context> certificate_watch::context() const {
    const std::lock_guard lock(mutex_);
    return context_;
}

bool certificate_watch::is_due(clock::time_point now) {
    const std::lock_guard lock(mutex_);
    if (now < next_look_) return false;
    next_look_ = now + look_time;
    return true;
}

void certificate_watch::look() {
    const stamps now = stamps_now();
    {
        const std::lock_guard lock(mutex_);
        // Certificate and key are replaced one after the other: the next look sees both.
        const bool is_still = std::exchange(seen_, now) == now;
        if (now == used_ || !is_still) return;
        used_ = now;
    }
    try {
        std::shared_ptr<const tls_context> made = tls_context::of_server(files_, speaks_);
        {
            const std::lock_guard lock(mutex_);
            context_ = std::move(made);
        }
        if (log_) log_({log_level::info, "certificate_loaded", "new connections get the new certificate", {}});
    } catch (const std::exception& failure) {
        if (!log_) return;
        log_({log_level::error,
              "certificate_refused",
              "the certificate was not replaced: " + printable(failure.what()),
              {}});
    }
}

}  // namespace sluice::serve

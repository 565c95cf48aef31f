// SPDX-License-Identifier: Apache-2.0
// A full disk, for tests.
#pragma once

#include <sys/resource.h>

#include <csignal>

namespace sluice::io::testing {

// Limits the length of the files that this process, and those that it starts, may write.
class file_size_limit {
public:
    explicit file_size_limit(rlim_t bytes) : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
        ::getrlimit(RLIMIT_FSIZE, &old_limit_);
        const rlimit limit{bytes, old_limit_.rlim_max};
        ::setrlimit(RLIMIT_FSIZE, &limit);
    }
    file_size_limit(const file_size_limit&) = delete;  // it undoes what it did
    file_size_limit& operator=(const file_size_limit&) = delete;
    ~file_size_limit() {
        ::setrlimit(RLIMIT_FSIZE, &old_limit_);
        std::signal(SIGXFSZ, old_handler_);
    }

private:
    void (*old_handler_)(int);
    rlimit old_limit_{};
};

}  // namespace sluice::io::testing

// SPDX-License-Identifier: Apache-2.0
#include "sluice/base/run_guard.hpp"

#include <utility>

namespace sluice {

constinit thread_local run_guard* run_guard::innermost_ = nullptr;

run_guard::run_guard(std::function<void()> look)
    : look_(std::move(look)), next_look_(clock::now() + look_time), outer_(innermost_) {
    innermost_ = this;
}

run_guard::~run_guard() { innermost_ = outer_; }

void run_guard::check_all() {
    const auto now = clock::now();
    for (run_guard* each = innermost_; each != nullptr; each = each->outer_) {
        if (now < each->next_look_) continue;
        each->look_();
        each->next_look_ = clock::now() + look_time;
    }
}

}  // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// by_thread: each submitting thread uses one stream of its own.
#pragma once

#include <functional>
#include <thread>
#include <vector>

#include "sluice/runtime/scheduling_policy.hpp"

class by_thread final : public sluice::scheduling_policy {
public:
    by_thread(sluice::device& on, std::size_t streams) {
        for (std::size_t i = 0; i < streams; ++i) streams_.emplace_back(on);
    }
    sluice::stream next() override {
        return *streams_[std::hash<std::thread::id>()(std::this_thread::get_id()) % streams_.size()];
    }

private:
    std::vector<sluice::stream_lease> streams_;
};

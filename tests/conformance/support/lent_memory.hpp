// SPDX-License-Identifier: Apache-2.0
// Memory that the tested runtime did not allocate: another runtime of the same backend did.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "conformance/backend.hpp"
#include "sluice/runtime/adopt.hpp"

namespace sluice::conformance {

// Counts releases, on any thread.
class release_count {
public:
    void add() noexcept { ++count_; }
    int now() const noexcept { return count_; }
    // Releases come from the runtime's completion thread: waits for them, but not for ever.
    bool reaches(int expected) const {
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
        while (count_ < expected && std::chrono::steady_clock::now() < until) std::this_thread::yield();
        return count_ == expected;
    }

private:
    std::atomic<int> count_{0};
};

// The completion thread handles drops in their order: returns when it has handled those so far. What is still in use
// then is not released.
inline void settle_drops(device& on) {
    for (int round = 1; round <= 2; ++round) {
        release_count last;
        adopt(on, static_cast<unsigned*>(nullptr), {0}, [&](unsigned*) { last.add(); });
        EXPECT_TRUE(last.reaches(1));
    }
}

class lender {
public:
    explicit lender(const backend& which) : machine_(which.options), on_(machine_.find(which.device)) {}

    class block {
    public:
        block(lender& of, const std::vector<unsigned>& contents)
            : of_(of), memory_(sluice::sync(upload(contents), of.pool_)) {}
        unsigned* data() { return memory_.device_data(); }
        // Read by the lender's own commands.
        std::vector<unsigned> contents() {
            shared_tensor<unsigned> all(std::move(memory_));
            std::vector<unsigned> values = sluice::sync(download(all), of_.pool_);
            memory_ = tensor<unsigned>(buffer<unsigned>(storage_ref(all->memory()), values.size()), {values.size()});
            return values;
        }

    private:
        lender& of_;
        tensor<unsigned> memory_;
    };

    std::shared_ptr<block> lend(const std::vector<unsigned>& contents) {
        return std::make_shared<block>(*this, contents);
    }

private:
    runtime machine_;
    device& on_;
    single_stream pool_{on_};
};

}  // namespace sluice::conformance

// scheduling_policy: picks the stream that an operation runs on, and decides nothing else. Whatever it
// picks, results are the same: ordering comes from the tickets.
//
// A policy holds its streams on loan from a device and may be dropped while work runs on them. next() may
// be called on any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include "sluice/runtime/device.hpp"

namespace sluice {

class scheduling_policy {
public:
    scheduling_policy() = default;
    scheduling_policy(const scheduling_policy&) = delete;  // contexts point to it
    scheduling_policy& operator=(const scheduling_policy&) = delete;
    virtual ~scheduling_policy() = default;

    // The stream for the next operation, or for the next independent branch of one.
    virtual stream& next() = 0;
};

// Streams in turn. The default for independent batches.
class round_robin final : public scheduling_policy {
public:
    // Throws errc::invalid_argument for no streams.
    round_robin(device& on, std::size_t streams, const stream_options& options = {});

    stream& next() override { return *streams_[turn_.fetch_add(1, std::memory_order_relaxed) % streams_.size()]; }
    std::size_t size() const noexcept { return streams_.size(); }

private:
    std::vector<stream_lease> streams_;
    std::atomic<std::size_t> turn_{0};
};

// Always the same stream: everything in submission order.
class single_stream final : public scheduling_policy {
public:
    explicit single_stream(device& on, const stream_options& options = {}) : stream_(on, options) {}

    stream& next() override { return *stream_; }

private:
    stream_lease stream_;
};

}  // namespace sluice

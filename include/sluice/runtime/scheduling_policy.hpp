// SPDX-License-Identifier: Apache-2.0
// scheduling_policy: picks the stream that an operation runs on, and decides nothing else. Every choice gives the same
// results: ordering comes from the tickets.
//
// A policy leases its streams from a device and may be dropped while work runs on them. next() may be called on any
// thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "sluice/runtime/device.hpp"

namespace sluice {

class scheduling_policy {
public:
    scheduling_policy() = default;
    scheduling_policy(const scheduling_policy&) = delete;  // contexts point to it
    scheduling_policy& operator=(const scheduling_policy&) = delete;
    virtual ~scheduling_policy() = default;

    // The stream for the next operation. The policies of the library throw nothing here, also when the device has
    // faulted: what is submitted to the stream then throws. The policies of the library cost O(1), those that choose by
    // load O(streams).
    virtual stream next() = 0;
    // The stream for an independent branch of an operation that runs on `home`. A stream of another device is ignored:
    // a branch stays where its data is. Without an override it costs what next costs.
    virtual stream next_branch(stream /*home*/) { return next(); }
    // The stream for a part of an operation that is to run on this device. Throws errc::invalid_argument when the
    // policy has no stream there. Without an override it costs what next costs.
    virtual stream next_on(device& target);
};

// Picks its streams one after the other, in a circle. The default for independent batches.
class round_robin final : public scheduling_policy {
public:
    // Throws errc::invalid_argument for no streams. Costs O(streams); a stream that the device does not have yet costs
    // calls of the driver.
    round_robin(device& on, std::size_t streams, const stream_options& options = {});

    // The next stream of the circle. Costs O(1): one atomic addition.
    stream next() override { return *streams_[turn_.fetch_add(1, std::memory_order_relaxed) % streams_.size()]; }
    std::size_t size() const noexcept { return streams_.size(); }  // the number of its streams
    // The number of commands on all streams that are not known to be complete. Does not query the device. Costs
    // O(streams).
    ticket in_flight() const noexcept;

private:
    std::vector<stream_lease> streams_;
    std::atomic<std::size_t> turn_{0};
};

// Picks the stream with the fewest commands in flight; equal ones alternate. For work of very different lengths. Each
// choice queries the device about streams that are not known to be idle.
class least_loaded final : public scheduling_policy {
public:
    // Throws errc::invalid_argument for no streams. Costs what round_robin's constructor costs.
    least_loaded(device& on, std::size_t streams, const stream_options& options = {});

    // The stream with the fewest commands in flight. Costs O(streams), with a poll of each that is not known to be
    // idle; it ends at the first that is idle.
    stream next() override;
    std::size_t size() const noexcept { return streams_.size(); }  // the number of its streams

private:
    std::vector<stream_lease> streams_;
    std::atomic<std::size_t> turn_{0};
};

// Streams of several priorities. Where the device has to choose, it runs work of a more urgent stream first. A GPU
// chooses between blocks of kernels, a CPU device between commands; running work is not interrupted. On a CPU device a
// stream is as urgent as the most urgent stream that waits for it. Each level is a policy.
//
//     priority_pool pools(device, {1, 3});              // one urgent stream, three others
//     spawn(alarm(x), pools.level(0));
class priority_pool {
public:
    // The number of streams of each level, the most urgent level first. Throws errc::invalid_argument when there are no
    // levels, or a level has no streams. Costs what round_robin's constructor costs, for each level.
    priority_pool(device& on, std::span<const std::size_t> streams);
    priority_pool(device& on, std::initializer_list<std::size_t> streams)
        : priority_pool(on, std::span(streams.begin(), streams.size())) {}

    // The policy of one level; 0 is the most urgent. Lives as long as the pool. Throws std::out_of_range for a level
    // that is not there. Costs O(1).
    scheduling_policy& level(std::size_t index) { return *levels_.at(index); }
    std::size_t levels() const noexcept { return levels_.size(); }  // the number of levels

private:
    std::vector<std::unique_ptr<round_robin>> levels_;
};

// The common part of policies over several devices: derived classes pick the device of the next operation. The streams
// of one device are used one after the other, in a circle; branches of an operation stay on its device.
class multi_device_policy : public scheduling_policy {
public:
    // On the device of `home`. Throws errc::invalid_argument for a device that the policy does not have. Costs
    // O(devices).
    stream next_branch(stream home) override { return on(home.owner()).next(); }
    // On this device. Throws errc::invalid_argument for a device that the policy does not have. Costs O(devices).
    stream next_on(device& target) override { return on(target).next(); }
    // The streams of one device. Throws errc::invalid_argument for a device that the policy does not have. Costs
    // O(devices).
    round_robin& on(const device& which) const;
    const std::vector<device*>& devices() const noexcept { return devices_; }  // each once, in the given order

protected:
    // A device that is named twice counts once. Throws errc::invalid_argument for no devices or no streams.
    multi_device_policy(std::span<device* const> devices, std::size_t streams_each, const stream_options& options);

    round_robin& pool(std::size_t index) const noexcept { return *pools_[index]; }
    std::size_t next_index() noexcept { return turn_.fetch_add(1, std::memory_order_relaxed); }

private:
    std::vector<device*> devices_;
    std::vector<std::unique_ptr<round_robin>> pools_;
    std::atomic<std::size_t> turn_{0};
};

// Picks its devices one after the other, in a circle.
class round_robin_devices final : public multi_device_policy {
public:
    // Throws errc::invalid_argument for no devices or no streams. A device that is named twice counts once. Costs what
    // round_robin's constructor costs, for each device, and compares the devices with each other.
    round_robin_devices(std::span<device* const> devices, std::size_t streams_each, const stream_options& options = {})
        : multi_device_policy(devices, streams_each, options) {}

    // The next stream of the next device. Costs O(1).
    stream next() override { return pool(next_index() % devices().size()).next(); }
};

// Picks the device with the fewest commands in flight on these streams; equal ones alternate. For batches of different
// lengths, or devices of different speeds. It queries no device. So on a GPU a command counts as in flight until a
// thread has waited for it or for a later command of the stream.
class least_loaded_device final : public multi_device_policy {
public:
    // Throws errc::invalid_argument for no devices or no streams. A device that is named twice counts once. Costs what
    // round_robin's constructor costs, for each device, and compares the devices with each other.
    least_loaded_device(std::span<device* const> devices, std::size_t streams_each, const stream_options& options = {})
        : multi_device_policy(devices, streams_each, options) {}

    // A stream of the device with the fewest commands in flight. Costs O(streams of all devices), and no call of the
    // driver.
    stream next() override;
};

// Always the same stream: everything runs in submission order.
class single_stream final : public scheduling_policy {
public:
    // Leases one stream of the device. Costs what round_robin's constructor costs for one stream.
    explicit single_stream(device& on, const stream_options& options = {}) : stream_(on, options) {}

    stream next() override { return *stream_; }  // always the same; costs O(1)

private:
    stream_lease stream_;
};

}  // namespace sluice

// scheduling_policy: picks the stream that an operation runs on, and decides nothing else. Whatever it
// picks, results are the same: ordering comes from the tickets.
//
// A policy holds its streams on loan from a device and may be dropped while work runs on them. next() may
// be called on any thread.
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

    // The stream for the next operation.
    virtual stream& next() = 0;
    // The stream for an independent branch of an operation that is at home on this one. One of another device is not
    // used: a branch stays where its data is.
    virtual stream& next_beside(stream& /*home*/) { return next(); }
    // The stream for a part of an operation that is to run on this device. Throws errc::invalid_argument where the
    // policy has none there.
    virtual stream& next_on(device& where);
};

// Streams in turn. The default for independent batches.
class round_robin final : public scheduling_policy {
public:
    // Throws errc::invalid_argument for no streams.
    round_robin(device& on, std::size_t streams, const stream_options& options = {});

    stream& next() override { return *streams_[turn_.fetch_add(1, std::memory_order_relaxed) % streams_.size()]; }
    std::size_t size() const noexcept { return streams_.size(); }
    // Commands not known to be over, on all of them. Does not ask the device.
    ticket in_flight() const noexcept;

private:
    std::vector<stream_lease> streams_;
    std::atomic<std::size_t> turn_{0};
};

// The stream with the fewest commands in flight; in turns among equals. For work of very different lengths. Choosing
// asks the device about streams that are not known to be idle.
class least_loaded final : public scheduling_policy {
public:
    // Throws errc::invalid_argument for no streams.
    least_loaded(device& on, std::size_t streams, const stream_options& options = {});

    stream& next() override;
    std::size_t size() const noexcept { return streams_.size(); }

private:
    std::vector<stream_lease> streams_;
    std::atomic<std::size_t> turn_{0};
};

// Streams of several priorities: what is ready on a more urgent one goes first, where the device has to choose. On a
// GPU between blocks of kernels, on a CPU between commands; what runs is not interrupted. Each level is a policy.
//
//     priority_pool pools(device, {1, 3});              // one urgent stream, three others
//     spawn(alarm(x), pools.level(0));
class priority_pool {
public:
    // So many streams at each level, the most urgent first. Throws errc::invalid_argument for no levels, or none in
    // one.
    priority_pool(device& on, std::span<const std::size_t> streams);
    priority_pool(device& on, std::initializer_list<std::size_t> streams)
        : priority_pool(on, std::span(streams.begin(), streams.size())) {}

    scheduling_policy& level(std::size_t index) { return *levels_.at(index); }
    std::size_t levels() const noexcept { return levels_.size(); }

private:
    std::vector<std::unique_ptr<round_robin>> levels_;
};

// Streams of several devices, each device's in turn; branches of an operation stay on its device. What the policies
// over several devices have in common: they differ in which device is the next one's.
class multi_device_policy : public scheduling_policy {
public:
    stream& next_beside(stream& home) override { return on(home.owner()).next(); }
    stream& next_on(device& where) override { return on(where).next(); }
    // The streams of one of them. Throws errc::invalid_argument for a device that is not among them.
    round_robin& on(const device& which) const;
    const std::vector<device*>& devices() const noexcept { return devices_; }

protected:
    // A device that is named twice counts once. Throws errc::invalid_argument for no devices or no streams.
    multi_device_policy(std::span<device* const> devices, std::size_t streams_each, const stream_options& options);

    round_robin& pool(std::size_t index) const noexcept { return *pools_[index]; }
    std::size_t next_turn() noexcept { return turn_.fetch_add(1, std::memory_order_relaxed); }

private:
    std::vector<device*> devices_;
    std::vector<std::unique_ptr<round_robin>> pools_;
    std::atomic<std::size_t> turn_{0};
};

// The devices in turn.
class per_device final : public multi_device_policy {
public:
    per_device(std::span<device* const> devices, std::size_t streams_each, const stream_options& options = {})
        : multi_device_policy(devices, streams_each, options) {}

    stream& next() override { return pool(next_turn() % devices().size()).next(); }
};

// The device with the fewest commands in flight on these streams, in turns among equals: for batches of different
// lengths, or devices of different speeds. Nobody is asked: on a GPU what has been waited for is known to be over, and
// commands that nobody waits for count as in flight until somebody waits for later ones.
class least_busy_device final : public multi_device_policy {
public:
    least_busy_device(std::span<device* const> devices, std::size_t streams_each, const stream_options& options = {})
        : multi_device_policy(devices, streams_each, options) {}

    stream& next() override;
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

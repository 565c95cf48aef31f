// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/scheduling_policy.hpp"

#include <algorithm>

#include "sluice/base/error.hpp"

namespace sluice {
namespace {

std::vector<stream_lease> lease_streams(device& on, std::size_t count, const stream_options& options,
                                        std::string_view policy) {
    if (count == 0) {
        throw error(errc::invalid_argument, std::string(policy) + " needs at least one stream", {"", on.name()});
    }
    std::vector<stream_lease> streams;
    streams.reserve(count);
    for (std::size_t i = 0; i < count; ++i) streams.emplace_back(on, options);
    return streams;
}

}  // namespace

round_robin::round_robin(device& on, std::size_t streams, const stream_options& options)
    : streams_(lease_streams(on, streams, options, "round_robin")) {}

least_loaded::least_loaded(device& on, std::size_t streams, const stream_options& options)
    : streams_(lease_streams(on, streams, options, "least_loaded")) {}

stream least_loaded::next() {
    const std::size_t first = turn_.fetch_add(1, std::memory_order_relaxed);
    std::size_t best = 0;
    ticket least = ~ticket{0};
    for (std::size_t i = 0; i < streams_.size(); ++i) {
        const stream each = *streams_[(first + i) % streams_.size()];
        if (each.passed() < each.issued()) each.poll();
        // Read in this order: commands issued meanwhile only make the stream look busier. A command that another thread
        // submits right now may have passed before it is counted as issued.
        const ticket passed = each.passed();
        const ticket issued = each.issued();
        if (issued <= passed) return each;
        const ticket in_flight = issued - passed;
        if (in_flight < least) {
            least = in_flight;
            best = i;
        }
    }
    return *streams_[(first + best) % streams_.size()];
}

priority_pool::priority_pool(device& on, std::span<const std::size_t> streams) {
    if (streams.empty()) throw error(errc::invalid_argument, "priority_pool needs at least one level", {"", on.name()});
    // The least urgent level has the default priority, 0; lower numbers are more urgent.
    int priority = 1 - static_cast<int>(streams.size());
    for (const std::size_t count : streams) {
        levels_.push_back(std::make_unique<round_robin>(on, count, stream_options{.priority = priority++}));
    }
}

stream scheduling_policy::next_on(device& target) {
    const stream one = next();
    if (&one.owner() == &target) return one;
    throw error(errc::invalid_argument,
                "the policy has no streams on this device: use a policy over several devices, such as "
                "round_robin_devices",
                {"", target.name()});
}

ticket round_robin::in_flight() const noexcept {
    ticket all = 0;
    for (const stream_lease& each : streams_) {
        // Read in this order, as in least_loaded.
        const ticket seen = each->queue().interpreter().last_flag();
        const ticket issued = each->issued();
        if (issued > seen) all += issued - seen;
    }
    return all;
}

multi_device_policy::multi_device_policy(std::span<device* const> devices, std::size_t streams_each,
                                         const stream_options& options) {
    if (devices.empty()) throw error(errc::invalid_argument, "a policy needs at least one device");
    for (device* each : devices) {
        if (std::ranges::find(devices_, each) != devices_.end()) continue;
        devices_.push_back(each);
        pools_.push_back(std::make_unique<round_robin>(*each, streams_each, options));
    }
}

round_robin& multi_device_policy::on(const device& which) const {
    for (std::size_t i = 0; i < devices_.size(); ++i) {
        if (devices_[i] == &which) return *pools_[i];
    }
    throw error(errc::invalid_argument, "the policy does not have this device", {"", which.name()});
}

stream least_loaded_device::next() {
    const std::size_t count = devices().size();
    const std::size_t first = next_index();
    std::size_t best = first % count;
    ticket least = pool(best).in_flight();
    for (std::size_t i = 1; i < count && least != 0; ++i) {
        const std::size_t each = (first + i) % count;
        const ticket theirs = pool(each).in_flight();
        if (theirs >= least) continue;
        least = theirs;
        best = each;
    }
    return pool(best).next();
}

}  // namespace sluice

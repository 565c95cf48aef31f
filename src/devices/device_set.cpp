// SPDX-License-Identifier: Apache-2.0
#include "sluice/devices/device_set.hpp"

#include <algorithm>

#include "sluice/base/error.hpp"

namespace sluice {

device_set::device_set(std::vector<device*> devices) : devices_(std::move(devices)) {
    if (devices_.empty()) throw error(errc::invalid_argument, "a device set needs at least one device", {"device_set"});
    if (std::ranges::find(devices_, nullptr) != devices_.end())
        throw error(errc::invalid_argument, "a device is null", {"device_set"});
    for (device* const each : devices_) {
        if (!each->is_peer_of(*devices_.front())) {
            throw error(
                errc::invalid_argument,
                each->name() + " and " + devices_.front()->name() + " must be devices of one runtime and one kind",
                {"device_set"});
        }
        if (std::ranges::find(distinct_, each) == distinct_.end()) distinct_.push_back(each);
    }
}

device_set::device_set(std::initializer_list<std::reference_wrapper<device>> devices)
    : device_set([&] {
          std::vector<device*> all;
          for (device& each : devices) all.push_back(&each);
          return all;
      }()) {}

device_set device_set::of(const runtime& machine, std::string_view which) {
    device& first = which == "all" ? machine.default_device() : machine.find(which);
    if (which != "all" && which != "cuda" && which != "cpu") return device_set{first};
    std::vector<device*> all = machine.devices();
    std::erase_if(all, [&](const device* each) { return each->kind() != first.kind(); });
    return device_set(std::move(all));
}

bool device_set::contains(const device& which) const noexcept {
    return std::ranges::find(distinct_, &which) != distinct_.end();
}

}  // namespace sluice

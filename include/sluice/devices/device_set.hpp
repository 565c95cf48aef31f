// SPDX-License-Identifier: Apache-2.0
// device_set: the devices that share a piece of work, in an order: the first is number 0. All are GPUs or all are
// (virtual) CPU devices, of one runtime. A device may be in the set several times and then acts as several devices.
//
//     const device_set all = device_set::of(machine);             // all GPUs, or else all CPU devices
//     const device_set two{machine.find("cpu:0"), machine.find("cpu:1")};
//     round_robin_devices pool(all, 4);
//
// Cheap to copy; immutable. It must not outlive the runtime.
//
// All members take constant time, but for the constructors, of, contains and ==, which are linear in the number of
// devices.
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "sluice/runtime/device.hpp"
#include "sluice/runtime/runtime.hpp"

namespace sluice {

class device_set {
public:
    // Throws errc::invalid_argument for an empty list, and for devices of several kinds or runtimes.
    explicit device_set(std::vector<device*> devices);
    device_set(std::initializer_list<std::reference_wrapper<device>> devices);
    // "all": the GPUs if there are any, otherwise the CPU devices; "cuda" or "cpu": all of that kind; any other name:
    // that one device. Throws errc::device_not_found as runtime::find does.
    static device_set of(const runtime& machine, std::string_view which = "all");

    std::size_t size() const noexcept { return devices_.size(); }  // the number of devices, repetitions included
    device& operator[](std::size_t number) const { return *devices_[number]; }  // number < size()
    device_kind kind() const noexcept { return devices_.front()->kind(); }      // the kind of all devices of the set
    bool contains(const device& which) const noexcept;                          // whether the device is in the set

    // The same devices without repetitions.
    const std::vector<device*>& distinct() const noexcept { return distinct_; }
    // The first device: loops visit size() devices, repetitions included.
    std::vector<device*>::const_iterator begin() const noexcept { return devices_.begin(); }
    std::vector<device*>::const_iterator end() const noexcept { return devices_.end(); }  // the end of such a loop
    // Whether both have the same devices in the same order.
    friend bool operator==(const device_set& a, const device_set& b) noexcept { return a.devices_ == b.devices_; }

private:
    std::vector<device*> devices_;
    std::vector<device*> distinct_;
};

}  // namespace sluice

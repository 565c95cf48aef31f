// runtime: owns devices, their memory and their threads. There is no ambient state: make as many as you
// like, each with its own devices; what they share is the hardware.
//
// Dropping a runtime waits for all work on its devices. What was made on them (tensors, policies, pending
// values) may outlive it: memory is kept until the last of it goes, but new work is refused with
// errc::runtime_closed.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "sluice/runtime/device.hpp"

namespace sluice {

class trace_recorder;

struct runtime_options {
    // Virtual CPU devices: cpu:0, cpu:1, ...
    std::size_t cpu_devices = 1;
    // Worker threads of each CPU device; 0 shares the machine's cores out among the CPU devices.
    std::size_t cpu_workers = 0;
    // Memory that each CPU device may use; 0 sets no limit but the machine's.
    std::size_t cpu_memory_bytes = 0;
    // Whether to look for GPUs. Without a driver or a GPU there are none, and that is no error.
    bool cuda = true;
    // Records what the devices do; null for nothing. See trace_recorder.hpp.
    trace_recorder* trace = nullptr;
};

class runtime {
public:
    explicit runtime(const runtime_options& options = {});
    runtime(runtime&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
    runtime& operator=(runtime&& other) noexcept {
        std::swap(state_, other.state_);
        return *this;
    }
    runtime(const runtime&) = delete;  // it owns threads and devices
    runtime& operator=(const runtime&) = delete;
    ~runtime();

    // All devices: GPUs first, then CPU devices.
    std::vector<device*> devices() const;
    // "cpu" or "cuda" (the first of its kind), "cpu:1", "cuda:0", or "auto": the first GPU, or else the first
    // CPU device. Throws errc::device_not_found, saying which devices there are and why no GPU was found.
    device& find(std::string_view name) const;
    device& default_device() const { return find("auto"); }

    // Why no GPU is used: "no NVIDIA driver was found"; empty when there is one.
    std::string_view why_no_gpu() const noexcept;

private:
    detail::runtime_state* state_;
};

}  // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// runtime: owns devices, their memory and their threads. There is no global state: a program may have any number of
// runtimes, each with its own devices; they share only the hardware.
//
// Destroying a runtime waits for all work on its devices. (On a thread of one of them, as in a host call, it does not:
// the runtime's own thread waits afterwards.) Tensors, policies and pending values may outlive the runtime: their
// memory is kept until the last of them is destroyed, but new work is refused with errc::runtime_closed.
//
// The members of a runtime that was moved from throw errc::invalid_argument.
//
// Thread safety: all members may be called on any thread.
//
// All members take time at most linear in the number of devices, but for the constructor, which looks for the devices
// and starts the threads.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "sluice/runtime/device.hpp"
#include "sluice/runtime/log.hpp"

namespace sluice {

class trace_recorder;

// What a runtime looks for and how its devices work.
struct runtime_options {
    // Virtual CPU devices: cpu:0, cpu:1, ...
    std::size_t cpu_devices = 1;
    // Worker threads of each CPU device; 0 divides the cores that the calling thread may use among the CPU devices.
    std::size_t cpu_workers = 0;
    // Bytes that each CPU device may use; 0 means no limit. All CPU devices together use no more than the machine has.
    std::size_t cpu_memory_bytes = 0;
    // Whether to look for GPUs. A machine without a driver or a GPU is not an error: the runtime then has no GPUs.
    bool cuda = true;
    // The GPUs to use, by CUDA's numbers, which are also in their names: 1 is "cuda:1". The first is the default.
    // Empty: all. A GPU that does not exist is an error: errc::device_not_found.
    std::vector<int> gpus = {};
    // For debugging: each command is waited for when it is submitted, as with CUDA_LAUNCH_BLOCKING, so that a fault is
    // thrown by the call that submitted it. Commands in a graph are waited for together; other launches of that graph
    // wait meanwhile, so a coroutine that a device's only worker resumes must not launch it.
    bool blocks_each_command = false;
    // Records what the devices execute; null records nothing. See trace_recorder.hpp.
    trace_recorder* trace = nullptr;
    // Receives entries about devices, library handles, workspaces, graphs, modules and faults; may be empty. See
    // log.hpp.
    log_function log = {};
};

class runtime {
public:
    // Finds the devices and starts their threads. Blocks while the driver of the GPUs starts. Throws
    // errc::device_not_found for a GPU in `options.gpus` that does not exist, errc::invalid_argument for one that is
    // there twice and where `options.cuda` is false, and device_error when a GPU that was found cannot be used.
    explicit runtime(const runtime_options& options = {});
    runtime(runtime&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
    runtime& operator=(runtime&& other) noexcept {
        std::swap(state_, other.state_);
        return *this;
    }
    runtime(const runtime&) = delete;  // it owns threads and devices
    runtime& operator=(const runtime&) = delete;
    // Blocks until the work on its devices is complete; see the top of this file.
    ~runtime();

    // All devices: GPUs first, then CPU devices.
    std::vector<device*> devices() const;
    // `name` is "cpu" or "cuda" (the first device of that kind), "cpu:1", "cuda:0", or "auto": the first GPU, or else
    // the first CPU device. Throws errc::device_not_found, with the existing devices and the reason why no GPU was
    // found.
    device& find(std::string_view name) const;
    device& default_device() const { return find("auto"); }  // the first GPU, or else cpu:0

    // The reason why the runtime has no GPU: "no NVIDIA driver was found"; empty when it has one.
    std::string_view why_no_gpu() const;

private:
    detail::runtime_state& held() const;

    detail::runtime_state* state_;
};

}  // namespace sluice

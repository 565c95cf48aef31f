// SPDX-License-Identifier: Apache-2.0
// separate_memory_device: a CPU device that behaves as if its memory were separate from the host's. Uploads to it are
// staged through a limited amount of host memory.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/backends.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/sluice.hpp"
#include "support/gate.hpp"
#include "support/owned_state.hpp"

namespace sluice::apart {

// Takes the place of pinned memory. The counts outlive the runtime.
class limited_memory final : public memory_source {
public:
    struct counts {
        std::atomic<std::size_t> limit_bytes{std::size_t{1} << 40};
        std::atomic<std::size_t> used_bytes{0};
        std::atomic<std::size_t> calls{0};
    };

    explicit limited_memory(std::shared_ptr<counts> counted) : counted_(std::move(counted)) {}

    void* allocate(std::size_t bytes) override {
        ++counted_->calls;
        if (counted_->used_bytes.fetch_add(bytes) + bytes <= counted_->limit_bytes)
            return std::aligned_alloc(256, bytes);
        counted_->used_bytes -= bytes;
        return nullptr;
    }
    void free(void* data, std::size_t bytes) noexcept override {
        counted_->used_bytes -= bytes;
        std::free(data);
    }
    memory_info info() override { return {}; }

private:
    const std::shared_ptr<counts> counted_;
};

class separate_memory_device final : public device_interpreter {
public:
    separate_memory_device(std::unique_ptr<device_interpreter> cpu, std::shared_ptr<limited_memory::counts> host)
        : cpu_(std::move(cpu)), host_(std::move(host)) {}

    device_kind kind() const noexcept override { return cpu_->kind(); }
    const device_properties& properties() const noexcept override { return cpu_->properties(); }
    std::unique_ptr<stream_interpreter> make_stream(command_queue& owner, const stream_options& options) override {
        return cpu_->make_stream(owner, options);
    }
    memory_source& device_memory() noexcept override { return cpu_->device_memory(); }
    memory_source& host_memory() noexcept override { return host_; }
    wait_mode default_wait_mode() const noexcept override { return cpu_->default_wait_mode(); }
    bool runs_library_calls_later() const noexcept override { return cpu_->runs_library_calls_later(); }
    bool runs_kernels_later() const noexcept override { return cpu_->runs_kernels_later(); }
    bool shares_host_memory() const noexcept override { return false; }
    bool is_pinned(const void*, std::size_t) const noexcept override { return all_is_pinned; }
    void close() noexcept override { cpu_->close(); }

    std::atomic<bool> all_is_pinned{false};

private:
    const std::unique_ptr<device_interpreter> cpu_;
    limited_memory host_;
};

// A runtime with one such device. It has one worker more than the number of streams that a test blocks.
class separate_memory_runtime {
public:
    separate_memory_runtime() {
        auto found = find_cpu_devices({.cpu_devices = 1, .cpu_workers = 3, .cuda = false});
        auto made = std::make_unique<separate_memory_device>(std::move(found.interpreters.front()), host);
        interpreter = made.get();
        state_->devices.push_back(std::make_unique<device>(*state_, "apart:0", std::move(made)));
    }
    separate_memory_runtime(const separate_memory_runtime&) = delete;  // its members point to each other
    separate_memory_runtime& operator=(const separate_memory_runtime&) = delete;

    device& on() const { return *state_->devices.front(); }

    const std::shared_ptr<limited_memory::counts> host = std::make_shared<limited_memory::counts>();
    separate_memory_device* interpreter = nullptr;

private:
    test_support::owned_state state_{new detail::runtime_state};
};

using test_support::gate;

}  // namespace sluice::apart

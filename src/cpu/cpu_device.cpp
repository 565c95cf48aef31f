// SPDX-License-Identifier: Apache-2.0
// A virtual CPU device: worker threads, memory, streams.

#include <algorithm>
#include <fstream>

#include "cpu/cpu_memory.hpp"
#include "cpu/cpu_stream.hpp"
#include "cpu/worker_pool.hpp"
#include "runtime/backends.hpp"
#include "runtime/block_limits.hpp"
#include "runtime/usable_cores.hpp"
#include "sluice/runtime/runtime.hpp"

namespace sluice {
namespace cpu {
namespace {

std::string processor_name() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
        if (line.rfind("model name", 0) != 0) continue;
        const auto colon = line.find(": ");
        if (colon != std::string::npos) return line.substr(colon + 2);
    }
    return "CPU";
}

class cpu_device final : public device_interpreter {
public:
    cpu_device(std::size_t workers, std::size_t memory_bytes)
        : executor_(workers), device_memory_(memory_bytes), host_memory_(physical_memory_bytes()) {
        properties_.name = processor_name();
        properties_.compute_units = static_cast<int>(workers);
        properties_.memory_bytes = memory_bytes;
        properties_.concurrent_kernels = workers > 1;
        properties_.max_blocks_per_cluster = 8;
        properties_.cooperative_launch = true;
        detail::set_host_block_limits(properties_);
    }

    device_kind kind() const noexcept override { return device_kind::cpu; }
    const device_properties& properties() const noexcept override { return properties_; }
    std::unique_ptr<stream_interpreter> make_stream(command_queue& owner, const stream_options& options) override {
        return std::make_unique<cpu_stream>(executor_, owner, options.priority);
    }
    std::unique_ptr<graph_program> instantiate(device&, command_graph commands) override {
        return std::make_unique<detail::replay_program>(std::move(commands));
    }
    memory_source& device_memory() noexcept override { return device_memory_; }
    memory_source& host_memory() noexcept override { return host_memory_; }
    wait_mode default_wait_mode() const noexcept override { return wait_mode::block; }
    bool runs_library_calls_later() const noexcept override { return true; }
    bool runs_kernels_later() const noexcept override { return true; }
    bool shares_host_memory() const noexcept override { return true; }
    bool is_own_thread() const noexcept override { return executor_.is_worker(); }
    void close() noexcept override { executor_.close(); }

private:
    worker_pool executor_;
    cpu_memory device_memory_;
    cpu_memory host_memory_;
    device_properties properties_;
};

}  // namespace
}  // namespace cpu

found_devices find_cpu_devices(const runtime_options& options) {
    found_devices found;
    const std::size_t cores = detail::usable_cores();
    const std::size_t shared_out = std::max<std::size_t>(1, cores / std::max<std::size_t>(1, options.cpu_devices));
    const std::size_t workers = options.cpu_workers != 0 ? options.cpu_workers : shared_out;
    const std::size_t memory = options.cpu_memory_bytes != 0 ? options.cpu_memory_bytes : cpu::physical_memory_bytes();
    for (std::size_t i = 0; i < options.cpu_devices; ++i) {
        found.interpreters.push_back(std::make_unique<cpu::cpu_device>(workers, memory));
    }
    if (found.interpreters.empty())
        found.why_none = "this runtime was created with no CPU devices (runtime_options::cpu_devices is 0)";
    return found;
}

}  // namespace sluice

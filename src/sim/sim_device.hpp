// SPDX-License-Identifier: Apache-2.0
// A simulated device: memory and streams of a sim_machine.
#pragma once

#include <cstddef>
#include <memory>

#include "runtime/block_limits.hpp"
#include "runtime/graph_replay.hpp"
#include "sim/sim_machine.hpp"
#include "sim/sim_memory.hpp"

namespace sluice::sim::detail {

class sim_device final : public device_interpreter {
public:
    sim_device(std::shared_ptr<sim_machine> in, std::size_t index, std::size_t memory_bytes)
        : machine_(std::move(in)),
          memory_(*machine_, index, false, memory_bytes != 0 ? memory_bytes : unlimited),
          host_(*machine_, index, true, unlimited) {
        properties_.name = "simulated";
        properties_.compute_units = 1;
        properties_.concurrent_kernels = true;
        properties_.max_blocks_per_cluster = 8;
        properties_.cooperative_launch = true;
        sluice::detail::set_host_block_limits(properties_);
        properties_.memory_bytes = memory_bytes != 0 ? memory_bytes : unlimited;
    }

    device_kind kind() const noexcept override { return device_kind::cpu; }
    const device_properties& properties() const noexcept override { return properties_; }
    std::unique_ptr<stream_interpreter> make_stream(command_queue& owner, const stream_options&) override {
        return std::make_unique<sim_stream>(*machine_, owner);
    }
    std::unique_ptr<graph_program> instantiate(device&, command_graph commands) override {
        if (machine_->planted != nullptr) machine_->planted->spoils(commands);
        return std::make_unique<sluice::detail::replay_program>(std::move(commands));
    }
    memory_source& device_memory() noexcept override { return memory_; }
    memory_source& host_memory() noexcept override { return host_; }
    wait_mode default_wait_mode() const noexcept override { return wait_mode::block; }
    bool runs_library_calls_later() const noexcept override { return true; }
    bool runs_kernels_later() const noexcept override { return true; }
    // As on a GPU, host data is staged.
    bool shares_host_memory() const noexcept override { return false; }
    void close() noexcept override {}

private:
    // More than any pipeline uses, and small enough that the sanitizers' allocators do not reject it as a mistake.
    static constexpr std::size_t unlimited = std::size_t{1} << 38;

    const std::shared_ptr<sim_machine> machine_;
    sim_memory memory_;
    sim_memory host_;
    device_properties properties_;
};

}  // namespace sluice::sim::detail

// A simulated device: memory and streams of an engine.
#pragma once

#include <cstddef>
#include <memory>

#include "runtime/graph_replay.hpp"
#include "sim/engine.hpp"
#include "sim/sim_memory.hpp"

namespace sluice::sim::detail {

class sim_device final : public device_interpreter {
public:
    sim_device(std::shared_ptr<engine> in, std::size_t index, std::size_t memory_bytes)
        : engine_(std::move(in)),
          memory_(*engine_, index, false, memory_bytes != 0 ? memory_bytes : unlimited),
          host_(*engine_, index, true, unlimited) {
        properties_.name = "simulated";
        properties_.compute_units = 1;
        properties_.memory_bytes = memory_bytes != 0 ? memory_bytes : unlimited;
    }

    device_kind kind() const noexcept override { return device_kind::cpu; }
    const device_properties& properties() const noexcept override { return properties_; }
    std::unique_ptr<stream_interpreter> make_stream(command_queue& owner, const stream_options&) override {
        return std::make_unique<sim_stream>(*engine_, owner);
    }
    std::unique_ptr<graph_program> instantiate(device&, command_graph commands) override {
        if (engine_->planted != nullptr) engine_->planted->spoils(commands);
        return std::make_unique<sluice::detail::replay_program>(std::move(commands));
    }
    memory_source& device_memory() noexcept override { return memory_; }
    memory_source& host_memory() noexcept override { return host_; }
    wait_mode default_wait_mode() const noexcept override { return wait_mode::block; }
    bool runs_library_calls_later() const noexcept override { return true; }
    // As a GPU: host data is staged.
    bool shares_host_memory() const noexcept override { return false; }
    void close() noexcept override {}

private:
    // More than any pipeline uses, and little enough that sanitizers' allocators do not take it for a mistake.
    static constexpr std::size_t unlimited = std::size_t{1} << 38;

    const std::shared_ptr<engine> engine_;
    sim_memory memory_;
    sim_memory host_;
    device_properties properties_;
};

}  // namespace sluice::sim::detail

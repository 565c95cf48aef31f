// SPDX-License-Identifier: Apache-2.0
#include "sluice/sim/simulator.hpp"

#include <stdexcept>
#include <string>
#include <utility>

#include "runtime/runtime_state.hpp"
#include "sim/sim_device.hpp"
#include "sluice/base/error.hpp"
#include "sluice/runtime/detail/command_queue.hpp"

namespace sluice::sim {

simulator::simulator(const simulator_options& options)
    : machine_(std::make_shared<detail::sim_machine>(options.planted)),
      state_(new sluice::detail::runtime_state(sluice::detail::completion_service::mode::driven)),
      streams_(options.streams) {
    machine_->service = &state_->service;
    state_->service.be_driven_by(machine_.get());
    for (std::size_t i = 0; i < options.devices; ++i) {
        state_->devices.push_back(
            std::make_unique<sluice::device>(*state_, "sim:" + std::to_string(i),
                                             std::make_unique<detail::sim_device>(machine_, i, options.memory_bytes)));
    }
    machine_->begin(0);
    sluice::detail::add_wait_driver(machine_->waits());
}

simulator::~simulator() {
    pool_.reset();
    machine_->ignore_waits = true;  // so that every stream ends, whatever was planted
    machine_->finish();
    machine_->is_closing = true;
    state_.reset();
    machine_->service = nullptr;
}

void simulator::close::operator()(sluice::detail::runtime_state* state) const noexcept {
    state->close();
    state->service.run_pending();
    state->service.be_driven_by(nullptr);
    state->release();
}

device& simulator::device(std::size_t index) const {
    if (index < state_->devices.size()) return *state_->devices[index];
    throw error(errc::device_not_found, "this simulator has " + std::to_string(state_->devices.size()) + " devices");
}

std::size_t simulator::devices() const noexcept { return state_->devices.size(); }

scheduling_policy& simulator::pool() {
    if (!pool_) pool_ = std::make_unique<round_robin>(device(), streams_);
    return *pool_;
}

void simulator::begin(std::uint64_t seed) {
    machine_->finish();
    for (const auto& each : state_->devices) each->trim();
    machine_->begin(seed);
}

void simulator::break_down_after(std::uint64_t commands) noexcept { machine_->break_down_at(commands + 1); }
std::exception_ptr simulator::breakdown() const noexcept { return machine_->breakdown(); }

void simulator::run_threads(std::vector<std::function<void()>> threads) {
    detail::host_threads(*machine_).run(std::move(threads));
}

void simulator::memory_freed(const void* data) { machine_->memory_freed(data); }

void simulator::run_all() { machine_->finish(); }

const std::vector<finding>& simulator::findings() const noexcept { return machine_->checks().findings(); }
void simulator::clear_findings() noexcept { machine_->checks().findings().clear(); }

void simulator::require_clean() const {
    if (!findings().empty()) throw std::runtime_error(to_string(findings().front()));
}

void simulator::report(fault what, std::string_view message) { machine_->checks().report(what, std::string(message)); }

trace simulator::executed_trace() const {
    trace ran;
    for (const auto& each : state_->devices) {
        for (command_queue* queue : each->all_queues())
            static_cast<const detail::sim_stream&>(queue->interpreter()).describe(ran, ran.devices.size());
        ran.devices.push_back(each->name());
    }
    return ran;
}

std::uint64_t simulator::commands() const noexcept { return machine_->commands; }
std::chrono::nanoseconds simulator::now() const noexcept { return std::chrono::nanoseconds(machine_->host_time); }

}  // namespace sluice::sim

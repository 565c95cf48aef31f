#include "sluice/sim/simulator.hpp"

#include <stdexcept>
#include <string>

#include "runtime/runtime_state.hpp"
#include "sim/sim_device.hpp"
#include "sluice/runtime/command_queue.hpp"
#include "sluice/runtime/error.hpp"

namespace sluice::sim {

simulator::simulator(const simulator_options& options)
    : engine_(std::make_shared<detail::engine>(options.planted)),
      state_(new sluice::detail::runtime_state(sluice::detail::completion_service::mode::driven)),
      streams_(options.streams) {
    engine_->service = &state_->service;
    state_->service.be_driven_by(engine_.get());
    for (std::size_t i = 0; i < options.devices; ++i) {
        state_->devices.push_back(
            std::make_unique<sluice::device>(*state_, "sim:" + std::to_string(i),
                                             std::make_unique<detail::sim_device>(engine_, i, options.memory_bytes)));
    }
    engine_->begin(0);
}

simulator::~simulator() {
    pool_.reset();
    engine_->waits_are_void = true;  // whatever was planted
    engine_->finish();
    engine_->is_closing = true;
    state_.reset();
    engine_->service = nullptr;
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
    engine_->finish();
    for (const auto& each : state_->devices) each->trim();
    engine_->begin(seed);
}

void simulator::break_down_after(std::uint64_t commands) noexcept { engine_->break_down_at(commands + 1); }
std::exception_ptr simulator::breakdown() const noexcept { return engine_->breakdown(); }

void simulator::run_all() { engine_->finish(); }

const std::vector<finding>& simulator::findings() const noexcept { return engine_->checks().findings(); }
void simulator::clear_findings() noexcept { engine_->checks().findings().clear(); }

void simulator::require_clean() const {
    if (!findings().empty()) throw std::runtime_error(to_string(findings().front()));
}

void simulator::report(fault what, std::string_view message) { engine_->checks().report(what, std::string(message)); }

trace simulator::what_ran() const {
    trace ran;
    for (const auto& each : state_->devices) {
        for (command_queue* queue : each->all_queues())
            static_cast<const detail::sim_stream&>(queue->interpreter()).describe(ran, ran.devices.size());
        ran.devices.push_back(each->name());
    }
    return ran;
}

std::uint64_t simulator::commands() const noexcept { return engine_->commands; }
std::chrono::nanoseconds simulator::now() const noexcept { return std::chrono::nanoseconds(engine_->host_time); }

}  // namespace sluice::sim

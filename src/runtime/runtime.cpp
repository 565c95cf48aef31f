// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/runtime.hpp"

#include "runtime/backends.hpp"
#include "runtime/runtime_state.hpp"
#include "sluice/base/error.hpp"
#include "sluice/op/detail/single_use.hpp"

namespace sluice {
namespace {

std::string describe(const device& found) {
    const device_properties& its = found.properties();
    return "found " + found.name() + ": " + its.name + ", " + std::to_string(its.compute_units) +
           (found.kind() == device_kind::cuda ? " multiprocessors, " : " workers, ") +
           std::to_string(its.memory_bytes) + " bytes of memory";
}

void add_devices(detail::runtime_state& state, std::string_view kind, found_devices found,
                 const runtime_options& options) {
    trace_recorder* const recorder = options.trace;
    std::size_t number = 0;
    for (auto& interpreter : found.interpreters) {
        // GPUs have CUDA's numbers, also when a runtime takes only some of them.
        const std::size_t theirs =
            interpreter->kind() == device_kind::cuda ? static_cast<std::size_t>(interpreter->ordinal()) : number;
        std::string name = std::string(kind) + ":" + std::to_string(theirs);
        ++number;
        if (recorder != nullptr) interpreter = make_traced_device(std::move(interpreter), *recorder, name);
        state.devices.push_back(std::make_unique<device>(state, std::move(name), std::move(interpreter)));
        const device& made = *state.devices.back();
        if (options.blocks_each_command) state.devices.back()->block_each_command();
        state.log.write({.event = log_event::device_found,
                         .device = made.name(),
                         .name = made.properties().name,
                         .bytes = made.properties().memory_bytes},
                        [&] { return describe(made); });
    }
}

}  // namespace

runtime::runtime(const runtime_options& options) {
    struct release {
        void operator()(detail::runtime_state* state) const noexcept {
            state->close();
            state->release();
        }
    };
    std::unique_ptr<detail::runtime_state, release> state(new detail::runtime_state);
    state->log.begin(options.log);
    if (options.cuda) {
        found_devices gpus = find_cuda_devices(options);
        state->why_no_gpu = gpus.why_none;
        add_devices(*state, "cuda", std::move(gpus), options);
    } else if (!options.gpus.empty()) {
        throw error(errc::invalid_argument, "runtime_options::gpus names GPUs, but runtime_options::cuda is false");
    } else {
        state->why_no_gpu = "this runtime was created with runtime_options::cuda = false";
    }
    if (!state->why_no_gpu.empty()) {
        state->log.write({.event = log_event::no_gpu}, [&] { return "found no GPU: " + state->why_no_gpu; });
    }
    add_devices(*state, "cpu", find_cpu_devices(options), options);
    state_ = state.release();
}

runtime::~runtime() {
    if (state_ == nullptr) return;  // moved from
    if (state_->is_of_parent()) return;
    if (state_->is_own_thread()) {
        state_->close_and_release_elsewhere();
        return;
    }
    state_->close();
    state_->release();
}

detail::runtime_state& runtime::held() const {
    if (state_ == nullptr) detail::refuse_moved_value("a runtime");
    return *state_;
}

std::vector<device*> runtime::devices() const {
    std::vector<device*> all;
    for (const auto& each : held().devices) all.push_back(each.get());
    return all;
}

device& runtime::find(std::string_view name) const {
    for (const auto& each : held().devices) {
        const bool of_kind = std::string_view(each->name()).substr(0, each->name().find(':')) == name;
        if (name == "auto" || name == each->name() || of_kind) return *each;
    }
    std::string message = "there is no device '" + std::string(name) + "'; there are:";
    for (const auto& each : state_->devices) message += " " + each->name();
    if (!state_->why_no_gpu.empty()) message += " (no GPU: " + state_->why_no_gpu + ")";
    throw error(errc::device_not_found, message);
}

std::string_view runtime::why_no_gpu() const { return held().why_no_gpu; }

}  // namespace sluice

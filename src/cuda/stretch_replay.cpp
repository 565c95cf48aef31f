// SPDX-License-Identifier: Apache-2.0
#include "cuda/stretch_replay.hpp"

#include <cstring>
#include <new>
#include <utility>

#include "cuda/api/commands.hpp"
#include "cuda/api/error.hpp"

namespace sluice::cuda {

std::size_t stretch_replay::closure_list::add(const void* closure, std::size_t bytes) {
    const std::size_t offset = all_.size() * sizeof(std::max_align_t);
    all_.resize(all_.size() + (bytes + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t));
    if (closure != nullptr && bytes != 0) std::memcpy(at(offset), closure, bytes);
    return offset;
}

bool stretch_replay::keep(ticket number, CUfunc_st* kernel, const launch_command& command, CUstream_st* on) {
    if (stretches_.is_full()) submit(on);
    const repeated_step step{kernel,
                             command.grid,
                             command.block,
                             command.shared_bytes,
                             command.closure_bytes,
                             command.early_start && with_early_starts_};
    kept_.push_back({step, closures_.add(command.closure, command.closure_bytes)});
    bool is_known = false;
    try {
        is_known = stretches_.add(step);
    } catch (...) {
        kept_.pop_back();
        throw;
    }
    if (is_known) {
        last_kept_ = number;
        return true;
    }
    kept_.pop_back();
    enqueue_each(on);
    return false;
}

void stretch_replay::submit(CUstream_st* on) {
    const repeated_stretches::ending end = stretches_.end();
    if (end.replaced) retire(std::exchange(programs_[*end.replaced], nullptr));
    if (end.replay && replay(*programs_[*end.replay], on)) {
        kept_.clear();
        closures_.clear();
        return;
    }
    enqueue_each(on);
    if (end.replay) stretches_.refuse(*end.replay);
    if (!end.build) return;
    try {
        programs_[*end.build] = build(stretches_.of(*end.build));
        stretches_.set_ready(*end.build);
    } catch (const device_error& error) {  // no room for the graph: as before
        if (api::is_fatal(error)) throw;
        stretches_.refuse(*end.build);
    } catch (const std::bad_alloc&) {
        stretches_.refuse(*end.build);
    }
}

void stretch_replay::retire(std::shared_ptr<program> unused) noexcept {
    if (unused == nullptr) return;
    try {
        retired_.push_back(std::move(unused));
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): the driver frees a graph after its last launch
    }
}

launch_command stretch_replay::command_of(const repeated_step& step, const void* closure) const noexcept {
    launch_command made;
    made.grid = step.grid;
    made.block = step.block;
    made.shared_bytes = step.shared_bytes;
    made.closure = closure;
    made.closure_bytes = step.closure_bytes;
    made.early_start = step.starts_early;
    return made;
}

void stretch_replay::enqueue_each(CUstream_st* on) {
    for (const kept_command& each : kept_) {
        auto* const kernel = static_cast<CUfunc_st*>(const_cast<void*>(each.step.kernel));
        api::launch(kernel, command_of(each.step, closures_.at(each.closure)), on, {});
    }
    kept_.clear();
    closures_.clear();
}

// False: the driver has refused it and enqueued nothing. Throws the fault of a device.
bool stretch_replay::replay(program& with, CUstream_st* on) try {
    for (std::size_t i = 0; i < kept_.size(); ++i) {
        const repeated_step& step = kept_[i].step;
        std::byte* const fresh = closures_.at(kept_[i].closure);
        std::byte* const known = with.closures.at(with.offsets[i]);
        if (std::memcmp(fresh, known, step.closure_bytes) == 0) continue;
        auto* const kernel = static_cast<CUfunc_st*>(const_cast<void*>(step.kernel));
        api::set_kernel(with.exec.get(), with.nodes[i], kernel, command_of(step, fresh), {});
        std::memcpy(known, fresh, step.closure_bytes);
    }
    api::launch(with.exec.get(), on, {});
    return true;
} catch (const device_error& error) {
    if (api::is_fatal(error)) throw;
    return false;
}

// With arguments of zeros, which the first replay sets: it may meet a launch whose arguments are all zeros, and does
// not set them.
std::shared_ptr<stretch_replay::program> stretch_replay::build(const repeated_stretches::steps& all) const {
    auto made = std::make_shared<program>();
    for (const repeated_step& each : all) made->offsets.push_back(made->closures.add(nullptr, each.closure_bytes));
    made->graph = api::create_graph();
    for (std::size_t i = 0; i < all.size(); ++i) {
        const launch_command command = command_of(all[i], made->closures.at(made->offsets[i]));
        const api::graph_dependency before{i == 0 ? nullptr : made->nodes.back(), all[i].starts_early};
        auto* const kernel = static_cast<CUfunc_st*>(const_cast<void*>(all[i].kernel));
        made->nodes.push_back(api::add_kernel(made->graph.get(), {&before, i == 0 ? std::size_t{0} : std::size_t{1}},
                                              kernel, command, {}));
    }
    made->exec = api::instantiate(made->graph.get(), false, {});
    return made;
}

}  // namespace sluice::cuda

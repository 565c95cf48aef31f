// SPDX-License-Identifier: Apache-2.0
#include "nn/operators/run_memory.hpp"

#include <algorithm>
#include <utility>

#include "nn/operators/node_call.hpp"
#include "sluice/nn/run_limit.hpp"

namespace sluice::nn {
namespace {

thread_local std::size_t limit_of_thread = 0;

}  // namespace

run_limit::run_limit(std::size_t bytes) noexcept : before_(std::exchange(limit_of_thread, bytes)) {}
run_limit::~run_limit() { limit_of_thread = before_; }
std::size_t run_limit::now() noexcept { return limit_of_thread; }

namespace operators {
namespace {

thread_local run_memory* memory_of_thread = nullptr;

const void* memory_of(const any_tensor& value) noexcept {
    return value.is_on_device() ? static_cast<const void*>(value.memory()) : value.host_owner().get();
}

}  // namespace

run_memory::run_memory() noexcept : most_(run_limit::now()), before_(std::exchange(memory_of_thread, this)) {}
run_memory::~run_memory() { memory_of_thread = before_; }

run_memory* run_memory::now() noexcept {
    return memory_of_thread != nullptr && memory_of_thread->most_ != 0 ? memory_of_thread : nullptr;
}

void run_memory::charge(const node_call& by, std::size_t bytes) {
    const std::size_t used = of_nodes_ + of_slots_;
    if (bytes > most_ - std::min(used, most_)) {
        throw run_too_large(*by.environment().path, file_error::no_offset, by.label(),
                            "needs " + std::to_string(bytes) + " bytes more than the " + std::to_string(used) +
                                " bytes of values that the run has; a run may have " + std::to_string(most_),
                            errc::out_of_memory);
    }
    of_nodes_ += bytes;
}

const void* run_memory::hold(const any_tensor& value) {
    const void* const at = memory_of(value);
    if (at == nullptr || value.size_bytes() == 0) return nullptr;
    held& its = held_[at];
    if (its.slots++ == 0) {
        its.bytes = value.size_bytes();
        of_slots_ += its.bytes;
    }
    return at;
}

void run_memory::drop(const void* at) noexcept {
    const auto found = held_.find(at);
    if (found == held_.end() || --found->second.slots != 0) return;
    of_slots_ -= found->second.bytes;
    held_.erase(found);
}

}  // namespace operators
}  // namespace sluice::nn

// SPDX-License-Identifier: Apache-2.0
// Whether kernels that a library call enqueues may start before the kernel before them has ended (programmatic
// dependent launch). Where a graph records the call, its maker says so on the calling thread; elsewhere they may not.
//
// A call that is one kernel, which starts early itself, leaves it to the maker of the graph: as a node like those of
// launches it may start before those before it have ended.
#pragma once

#include <cstddef>
#include <functional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "sluice/runtime/command.hpp"

struct CUfunc_st;

namespace sluice {
class device;
}

namespace sluice::cuda {

// Whether a kernel can start before its predecessor has ended.
bool can_start_early(const device& on) noexcept;

// The kernel of a library call that is only this.
class left_kernel {
public:
    // `is_constant`: whether no node of the graph writes what the call reads, by its place among the call's reads.
    explicit left_kernel(std::function<bool(std::size_t)> is_constant) : is_constant_(std::move(is_constant)) {}

    bool is_constant(std::size_t read) const { return is_constant_(read); }
    // Once: a call of several kernels is none that leaves one. Throws std::logic_error.
    void keep(CUfunc_st* kernel, const launch_command& command) {
        if (kernel_ != nullptr) throw std::logic_error("a library call leaves several kernels");
        const auto* const begin = static_cast<const std::byte*>(command.closure);
        closure_.assign(begin, begin + command.closure_bytes);
        kernel_ = kernel;
        command_ = command;
    }

    CUfunc_st* kernel() const noexcept { return kernel_; }  // null: the call has left none
    launch_command command() const noexcept {
        launch_command made = command_;
        made.closure = closure_.data();
        return made;
    }

private:
    std::function<bool(std::size_t)> is_constant_;
    CUfunc_st* kernel_ = nullptr;
    launch_command command_;
    std::vector<std::byte> closure_;
};

// A scope on this thread. Kernels that start early call dependency_wait before they touch memory.
class early_starts {
public:
    // `left`: where a call may leave its kernel, or null.
    explicit early_starts(bool are_possible, left_kernel* left = nullptr) noexcept
        : before_(std::exchange(are_possible_, are_possible)), left_before_(std::exchange(left_, left)) {}
    early_starts(const early_starts&) = delete;  // a scope
    early_starts& operator=(const early_starts&) = delete;
    ~early_starts() {
        are_possible_ = before_;
        left_ = left_before_;
    }

    static bool are_possible() noexcept { return are_possible_; }
    static left_kernel* left() noexcept { return left_; }

private:
    static inline thread_local bool are_possible_ = false;
    static inline thread_local left_kernel* left_ = nullptr;
    const bool before_;
    left_kernel* const left_before_;
};

}  // namespace sluice::cuda

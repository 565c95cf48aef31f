// SPDX-License-Identifier: Apache-2.0
// loop_condition: with it, a kernel in the body of do_while decides whether the body runs again.
//
//     struct halve {
//         SLUICE_KERNEL void operator()(index_1d at, disjoint_view<float> x, loop_condition again) const {
//             float* const element = x.at(at);
//             if (element == nullptr) return;
//             *element /= 2;
//             if (at.value() == 0) again.set(*element > 1);   // by one thread, in one kernel of the body
//         }
//     };
//
// The body's function receives a loop_flag for it and passes that to the launch.
#pragma once

#include <cstdint>

#include "sluice/base/kernel.hpp"
#include "sluice/runtime/detail/launch_arguments.hpp"
#include "sluice/runtime/storage.hpp"

namespace sluice {

// A kernel's parameter, passed by value.
class loop_condition {
public:
    // Sets whether the body runs again after this run. Called once per run, by one thread of one kernel. If no thread
    // calls it, the value of the last call stays in force. Costs O(1).
    SLUICE_KERNEL void set(bool again) const {
#if defined(__CUDA_ARCH__)
        cudaGraphSetConditional(handle_, again ? 1u : 0u);
#else
        *flag_ = again ? 1 : 0;
#endif
    }

private:
    friend class loop_flag;
    SLUICE_KERNEL loop_condition(std::uint64_t handle, int* flag) : handle_(handle), flag_(flag) {}

    [[maybe_unused]] std::uint64_t handle_;  // a placeholder mark until the graph is instantiated
    int* flag_;
};

// The launch argument for it. Belongs to the loop: copies are valid inside the body only.
class loop_flag {
public:
    loop_flag(storage& memory, std::uint64_t mark) : memory_(&memory), mark_(mark) {}  // made by the loop; costs O(1)

    storage* memory() const noexcept { return memory_; }  // where the condition is, to be named by the launch
    // The condition that the kernel receives in the place of the flag. Costs O(1).
    loop_condition condition() const noexcept { return {mark_, static_cast<int*>(memory_->data())}; }

private:
    storage* memory_;
    std::uint64_t mark_;
};

namespace detail {
template <>
struct bound_argument<loop_condition, loop_flag> {
    static constexpr argument_use use = argument_use::read;  // the launch does not return it
    static constexpr access_mode mode = access_mode::write;  // but written
    static loop_condition bind(const loop_flag& flag, const error_context&) { return flag.condition(); }
    static storage* memory(const loop_flag& flag) { return flag.memory(); }
};
}  // namespace detail

}  // namespace sluice

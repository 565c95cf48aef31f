// loop_condition: what a kernel in the body of do_while says whether to go round again with.
//
//     struct halve {
//         SLUICE_KERNEL void operator()(index_1d at, disjoint_view<float> x, loop_condition again) const {
//             float* const element = x.at(at);
//             if (element == nullptr) return;
//             *element /= 2;
//             if (at.value() == 0) again.set(*element > 1);   // one thread says so, in one kernel of the body
//         }
//     };
//
// The body's function gets a loop_flag for it, and passes that to the launch.
#pragma once

#include <cstdint>

#include "sluice/runtime/kernel.hpp"
#include "sluice/runtime/launch_arguments.hpp"
#include "sluice/runtime/storage.hpp"

namespace sluice {

// A kernel's parameter, by value.
class loop_condition {
public:
    // Whether the body runs again, when it is through. Once in each run, by one thread of one kernel; when nobody says
    // anything, what was said last holds.
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

    [[maybe_unused]] std::uint64_t handle_;  // until the graph is instantiated: the mark that stands for it
    int* flag_;
};

// The argument for it. Belongs to the loop: copies of it are good inside the body only.
class loop_flag {
public:
    loop_flag(storage& memory, std::uint64_t mark) : memory_(&memory), mark_(mark) {}

    storage* memory() const noexcept { return memory_; }
    loop_condition condition() const noexcept { return {mark_, static_cast<int*>(memory_->data())}; }

private:
    storage* memory_;
    std::uint64_t mark_;
};

namespace detail {
template <>
struct bound_argument<loop_condition, loop_flag> {
    static constexpr argument_use use = argument_use::read;  // not given back by the launch
    static constexpr access_mode mode = access_mode::write;  // but written
    static loop_condition bind(const loop_flag& flag, const error_context&) { return flag.condition(); }
    static storage* memory(const loop_flag& flag) { return flag.memory(); }
};
}  // namespace detail

}  // namespace sluice

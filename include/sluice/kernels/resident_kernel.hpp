// SPDX-License-Identifier: Apache-2.0
// resident_kernel: a kernel of your own that stays on a GPU and answers requests there, without a launch for each. A
// request takes some microseconds, host to host.
//
//     struct smoothed {        // the kernel: its members live from request to request
//         float mean = 0;
//         SLUICE_KERNEL void operator()(const thread_block& block, const float& reading, float& answer) {
//             block.for_each_thread([&](const block_thread& t) {
//                 if (t.index() == 0) answer = mean += (reading - mean) / 8;
//             });
//         }
//     };
//
//     const resident_kernel smooth(machine.default_device(), smoothed{});
//     float now = smooth.ask(1.5F);                           // at once: for the last microsecond
//     auto next = smooth.post(2.F);                           // asks and returns; the answer comes by next.get()
//     const float later = sync(smooth(2.5F), pool);           // as an operation
//
// The types of request and answer are those of the call operator, and trivially copyable, as the kernel is. One block
// of threads calls the operator for each request, as block_kernel.hpp says: on a GPU each thread calls it, on a CPU it
// is called once, on the caller's thread. The kernel object, the request and the answer are in the block's shared
// memory; so members are also where threads pass values to each other, across block.sync(). The operator writes the
// whole answer: its first value is unspecified. Everything that it uses is there: a pointer to other device memory is
// not allowed, since no command names that memory while the kernel stays.
//
// A kernel has `lanes`: blocks with a state of their own each, which begin as copies of the given object. A lane
// answers its requests in the order in which they were asked, each by the state that the request before left. Up to
// `requests` of them are in flight: words with sequence numbers in pinned host memory, which the block polls.
//
// It takes one multiprocessor for each lane, and room for one small block more, which watches them. What a kernel that
// stays means for the rest of the program is said at the top of nn/resident.hpp, and holds here in the same way: no
// call that waits for the whole GPU, no lazily loaded kernels.
//
// Every request gets an answer or an error: when the GPU faults, each caller gets the first cause; when the runtime is
// destroyed, errc::runtime_closed; when the kernel does not answer within longest_wait, errc::timed_out, and so does
// each later call. A call operator that has not returned longest_wait after the kernel was to end is ended by a trap,
// because there is no other way: then the GPU is lost for the process, as after any fault.
//
// A handle: copies share the kernel, and the last one ends it; answers that are still to come keep it.
// Thread safety: all members may be called on any thread; those that read the answer of one post by one thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

#include "sluice/base/source_location.hpp"
#include "sluice/kernels/detail/resident_body.hpp"
#include "sluice/kernels/detail/resident_core.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/host_call.hpp"

namespace sluice {

// How the kernel stays.
struct resident_kernel_options {
    // Of the block, 1 to 1024. The words of a request and an answer are moved by these threads, 4 bytes each at a time.
    unsigned threads = 32;
    // Blocks, which answer at the same time, with a state of their own each.
    std::size_t lanes = 1;
    // The most of each lane that are in flight. As many answers more are kept until they are taken, in any order and by
    // any thread; then a request waits until one is taken or dropped. So threads that share a lane and have no more
    // than this many requests in flight or not taken never wait for each other.
    std::size_t requests = 4;
    // How long the kernel pauses between two looks for a request. Without a pause it answers soonest; with one it reads
    // less from the host's memory, and a request waits up to that much longer. Up to a millisecond.
    std::chrono::nanoseconds pause = {};
    // The process has launched every kernel that it will launch while this one stays; see nn/resident.hpp.
    bool all_kernels_are_loaded = false;
    // How long a caller waits for an answer, and the longest that the call operator may take. At most a day.
    std::chrono::milliseconds longest_wait = std::chrono::seconds(2);
};

// The answer to one request of a resident_kernel. Dropping it before get() drops the answer.
template <typename Answer>
class resident_answer {
public:
    // Whether get() returns without waiting. Costs O(1).
    bool is_there() const { return asked_.is_there(); }
    // Waits by spinning. Once. Throws as resident_kernel::ask does. Costs O(bytes) of the answer, and the wait.
    Answer get() && {
        detail::answer_bytes<Answer> made;
        asked_.take(made.bytes);
        return made.value();
    }

    // Made by resident_kernel::post. Costs O(1).
    explicit resident_answer(detail::posted_request asked) noexcept : asked_(std::move(asked)) {}

private:
    detail::posted_request asked_;
};

inline namespace SLUICE_LAUNCH_ABI {

template <typename Kernel>
class resident_kernel {
    static_assert(std::is_trivially_copyable_v<Kernel>,
                  "resident_kernel: a kernel object is copied to the device byte by byte");
    static_assert(detail::has_resident_signature<Kernel>,
                  "resident_kernel: a kernel is a class with one `void operator()(const thread_block&, const Request&, "
                  "Answer&)`");

public:
    using request = typename detail::resident_signature<Kernel>::request;  // what the call operator takes
    using answer = typename detail::resident_signature<Kernel>::answer;    // what it writes

    // Starts the kernel and waits until it runs. Throws errc::invalid_argument for options that are out of range, for
    // more multiprocessors than the GPU has (one is left to others) and for a kernel object, request and answer that do
    // not fit into the shared memory of a block; errc::unsupported for code that nvcc did not compile, where each
    // command is waited for (runtime_options::blocks_each_command) and where kernels are loaded lazily;
    // errc::timed_out when the GPU does not start it. On a GPU it costs one launch, and pinned memory for the requests
    // of each lane.
    resident_kernel(device& on, const Kernel& kernel, const resident_kernel_options& options = {},
                    source_location location = source_location::current())
        : core_(detail::start_resident_kernel(on, detail::resident_body<Kernel>::form(), &kernel, options, location)) {}

    // Asks and waits for the answer, by spinning. Does not allocate on a GPU. `lane` is below lanes(). Throws
    // errc::invalid_argument for another lane; errc::timed_out when no entry becomes free for longest_wait, because
    // answers are not taken; and see above. On a CPU device also what the call operator throws.
    answer ask(const request& asked, std::size_t lane = 0) const {
        detail::answer_bytes<answer> made;
        core().ask(lane, &asked, made.bytes);
        return made.value();
    }
    // Asks, and returns an answer that is still to come; the request is copied. Waits for a free entry
    // (resident_kernel_options::requests). On a CPU device it computes. Costs O(bytes) of the request and the wait; on
    // a CPU device one call of the operator.
    resident_answer<answer> post(const request& asked, std::size_t lane = 0) const {
        return resident_answer<answer>(detail::posted_request(held(), lane, &asked));
    }
    // The same as an operation, whose output is a pending<answer>. It is a host call: it runs in its stream's order, on
    // a thread of the driver, and costs what a host call costs.
    auto operator()(const request& asked, std::size_t lane = 0) const {
        return host_call([kernel = *this, lane](const request& each) { return kernel.ask(each, lane); },
                         request(asked));
    }

    // The number of blocks that answer at the same time. Costs O(1).
    std::size_t lanes() const { return core().lanes(); }
    // That it takes, and that are left for other work. On a CPU device 0, and all workers. Costs O(1).
    std::size_t multiprocessors() const { return core().multiprocessors(); }
    // Those that are left for other work. Costs O(1).
    std::size_t free_multiprocessors() const { return core().free_multiprocessors(); }

private:
    // Throw errc::invalid_argument for a handle that was moved from.
    const std::shared_ptr<detail::resident_core>& held() const { return detail::held(core_); }
    detail::resident_core& core() const { return *held(); }

    std::shared_ptr<detail::resident_core> core_;
};

}  // namespace SLUICE_LAUNCH_ABI

}  // namespace sluice

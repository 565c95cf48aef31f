// SPDX-License-Identifier: Apache-2.0
// staying_kernel: a kernel that stays on a GPU, as the host sees it. It refuses what such a kernel cannot be, starts
// and ends the kernel, waits for answers, and reports to each caller why there are none any more. What is asked and
// answered is the owner's business. On a CPU device there is only the check of the options.
//
// The kernel ends when the word at stop_word() is not 0 any more.
//
// Thread safety: start() and close() once, by the owner's thread; the other members on any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/completion_service.hpp"
#include "runtime/staying_work.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/source_location.hpp"
#include "sluice/runtime/detail/closure.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::kernels {

// What the options of all kinds of such kernels have in common.
struct staying_options {
    std::string_view kind;     // in errors: "resident_network"
    std::string_view options;  // "resident_options"
    std::size_t lanes;
    std::chrono::nanoseconds pause;
    bool all_kernels_are_loaded;
    std::chrono::milliseconds longest_wait;
};

// For a thread that looks again and again.
inline void relax() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

class staying_kernel final : public sluice::detail::staying_work {
public:
    using clock = std::chrono::steady_clock;

    // Throws errc::invalid_argument for options out of range, and errc::unsupported where such a kernel would make the
    // process wait for ever.
    staying_kernel(device& on, const staying_options& options, const source_location& location);
    ~staying_kernel() { close(); }

    device& on() const noexcept { return on_; }
    bool is_on_gpu() const noexcept { return on_.kind() == device_kind::cuda; }
    const staying_options& options() const noexcept { return options_; }
    error_context context() const { return {options_.kind, on_.name(), location_}; }
    [[noreturn]] void fail(errc code, const std::string& why) const;
    // Throws errc::invalid_argument unless the blocks of all lanes and the others leave a multiprocessor to other work.
    void require_multiprocessors(std::size_t blocks_of_lane, std::size_t others) const;

    // Pinned host memory for what the kernel reads and writes: this many bytes, cleared, on lines of their own.
    std::byte* allocate(std::size_t bytes);
    const std::uint32_t* stop_word() const noexcept;

    // Puts the kernel on a stream of its own: `launch` gets that stream. Then calls `ask_first`, which asks the kernel
    // for something and awaits it by first_wait(). `read`: device memory that the kernel reads; null for none.
    template <typename Launch, typename AskFirst>
    void start(const Launch& launch, storage* read, const AskFirst& ask_first) {
        struct launch_closure {
            const Launch* launch;
        } closure{&launch};
        submit(sluice::detail::library_call_with(
                   [](const native_stream& on, const void* erased) {
                       (*static_cast<const launch_closure*>(erased)->launch)(on);
                   },
                   closure),
               read);
        try {
            ask_first();
        } catch (...) {
            close();
            throw;
        }
    }
    // A GPU that is busy starts the kernel when its multiprocessors are free.
    clock::duration first_wait() const noexcept;
    bool is_started() const noexcept { return is_started_; }

    // Calls is_there() until it returns true. Throws the first cause when the GPU has faulted, errc::runtime_closed,
    // and errc::timed_out when it takes longer than this; then the kernel is ended, since what it does is not known any
    // more, and each later call throws the same. Spins. In a host call, too.
    template <typename Function>
    void wait_until(const Function& is_there, clock::duration longest) {
        wait_state so_far{longest, !on_.interpreter().is_own_thread(), {}};
        for (unsigned looks = 1; !is_there(); ++looks) {
            relax();
            if (looks % looks_before_check == 0) check(so_far);
        }
    }
    // Throws when the kernel answers no more.
    void throw_if_lost();
    // Looks into memory between two looks at the clock and the device.
    static constexpr unsigned looks_before_check = 1u << 12;

    // Ends the kernel and waits for its end.
    void close() noexcept;
    // In a host call of the GPU the driver must not be called: then the owner is destroyed elsewhere.
    bool must_end_elsewhere() const noexcept { return is_started_ && on_.interpreter().is_own_thread(); }

    const command_queue& queue() const noexcept override { return (*lease_)->queue(); }
    ticket before() const noexcept override { return before_; }
    void end() noexcept override;

private:
    struct wait_state {
        clock::duration longest;
        bool may_call_driver;
        std::optional<clock::time_point> end;
    };

    void check_options() const;
    void submit(const library_command& command, storage* read);
    void check(wait_state& so_far);
    [[noreturn]] void give_up(clock::duration longest);

    device& on_;
    const runtime_ref runtime_;
    const staying_options options_;
    const source_location location_;
    std::optional<stream_lease> lease_;
    ticket before_ = 0;
    storage_ref memory_;
    bool is_started_ = false;
    std::mutex failing_;
    std::exception_ptr failure_;  // set before has_failed_, and not changed afterwards
    std::atomic<bool> has_failed_{false};
};

// Destroys the owner of such a kernel when its last handle is dropped: now, or on the completion thread.
template <typename Owner>
class staying_owner_drop final : public work_item {
public:
    explicit staying_owner_drop(Owner& of) noexcept
        : work_item([](work_item& self) noexcept { delete &static_cast<staying_owner_drop&>(self).of_; }), of_(of) {}

    void drop(const staying_kernel& kernel) noexcept {
        if (kernel.must_end_elsewhere())
            kernel.on().service().post(*this);
        else
            delete &of_;
    }

private:
    Owner& of_;
};

}  // namespace sluice::kernels

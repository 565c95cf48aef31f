// SPDX-License-Identifier: Apache-2.0
// A stream on a GPU: a cudaStream_t, one event for hand-overs to other streams, recorded only on request, one event for
// threads that sleep, and one word of pinned memory that the stream writes when a thread waits.
//
// Invariants: handover_'s last recording comes after ticket covered_. Recording again only moves the event later, so a
// stream that waits for an older recording never waits too little. The last write to the flag comes after ticket armed_
// and writes it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "cuda/api/pinned.hpp"
#include "cuda/api/runtime.hpp"
#include "cuda/commands_in_flight.hpp"
#include "cuda/event_pool.hpp"
#include "cuda/host_works.hpp"
#include "cuda/kept_owners.hpp"
#include "cuda/stretch_replay.hpp"
#include "sluice/runtime/detail/outcome.hpp"
#include "sluice/runtime/interpreter.hpp"

namespace sluice::cuda {

class cuda_stream final : public stream_interpreter {
public:
    cuda_stream(command_queue& owner, const api::gpu_context& context, const stream_options& options,
                std::shared_ptr<event_pool> marks);
    ~cuda_stream() override;

    void copy(const command_info& info, const copy_command& command) override;
    void fill(const command_info& info, const fill_command& command) override;
    void launch(const command_info& info, const launch_command& command) override;
    std::exception_ptr library_call(const command_info& info, const library_command& command) override;
    void host_call(const command_info& info, host_command command) override;
    void graph(const command_info& info, const graph_command& command) override;
    ticket order_after(stream_interpreter& other, ticket upto) override;
    std::unique_ptr<timed_mark> mark() override;

    void submit_kept() noexcept override;
    // Other code may use the handle from here on, and has to find all commands on the stream: no more is kept.
    native_stream native() const noexcept override;
    ticket passed() const noexcept override { return passed_.load(std::memory_order_acquire); }
    void poll() noexcept override;
    void wait(ticket upto, wait_mode mode) override;
    void abandon() noexcept override;
    void trim() noexcept override;
    void begin_range(const char* name) noexcept override { api::begin_range(name); }
    void end_range() noexcept override { api::end_range(); }
    void attach(std::optional<void*> foreign) override;
    bool needs_watching() const noexcept override { return true; }
    void arm(ticket upto) noexcept override;
    ticket last_flag() const noexcept override;

    commands_in_flight& in_flight() noexcept { return in_flight_; }

private:
    template <typename Call>
    void checked(const command_info& info, Call&& call);
    // Poisons the device where the code is a fault's.
    void notice(int code, std::string_view call) noexcept;
    // The same, and throws the first cause then.
    void notice(const device_error& error);
    // Of commands whose tickets are issued: when they cannot be enqueued, the device is lost.
    void lose_kept(const device_error& error) noexcept;
    template <typename Enqueue>
    void enqueue(const command_info& info, Enqueue&& call, bool runs_kernels = false);
    template <typename Enqueue>
    void enqueue_now(const command_info& info, Enqueue&& call, bool runs_kernels);
    native_stream own_native() const noexcept;
    // For streams that replay; see cuda_stream_replay.cpp.
    bool may_keep(const command_info& info) const noexcept;
    bool keep(const command_info& info, const launch_command& launch, bool runs_kernels);
    bool keep_launch(const command_info& info, const launch_command& command);
    bool keep_copy(const command_info& info, const copy_command& copy);
    bool keep_fill(const command_info& info, const fill_command& fill);
    bool is_pinned_block(const command_info& info, const void* data) const noexcept;
    void submit_kept_locked() noexcept;
    void count_kept_as_submitted() noexcept;
    void drop_kept() noexcept;
    // The last command that the driver has.
    ticket in_driver() const noexcept;
    CUfunc_st* find_kernel(const launch_command& command, const error_context& context);
    ticket hand_over(ticket upto);
    void await_stream(wait_mode mode);
    void await_handle(wait_mode mode);
    void poll_foreign() noexcept;
    kept_owners::span until_next_command() const noexcept;
    void keep_for_next_command(const std::shared_ptr<const void>& owner);
    // `of` is null, or the graph whose host calls come before the function.
    void call_host(const command_info& info, std::function<void()> function, std::shared_ptr<graph_host_calls> of);
    void drop_passed_owners() noexcept { kept_.drop(passed()); }
    void has_passed(ticket number) noexcept;
    // Poisons the device: the driver has reported a fault with this code.
    void report_fault(int code, std::string_view call) noexcept;

    command_queue& owner_;
    const api::gpu_context& context_;
    const std::shared_ptr<event_pool> marks_;
    api::stream_handle stream_;             // null for a foreign stream
    CUstream_st* handle_ = nullptr;         // the stream in use; null while no lease has the foreign stream
    std::atomic<bool> is_detached_{false};  // the foreign stream belongs to its caller again
    std::atomic<int> waiting_{0};           // threads that wait for a foreign stream
    api::event_handle handover_;
    api::event_handle sleeping_;
    api::pinned_object<std::uint64_t> flag_;
    std::atomic<ticket> passed_{0};
    ticket armed_ = 0;  // guarded by the stream's lock
    struct known_kernel {
        const void* symbol = nullptr;
        CUfunc_st* kernel = nullptr;
        std::size_t shared_bytes = 0;  // that a launch may use; more must be allowed first
    };
    std::array<known_kernel, 64> known_kernels_;  // by a hash of the symbol; a collision replaces the entry
    commands_in_flight in_flight_;
    const std::unique_ptr<stretch_replay> replay_;  // null for a stream that does not replay
    std::mutex replay_mutex_;                       // guards replay_; locked before mutex_
    std::atomic<ticket> in_driver_{0};              // of a stream that replays
    mutable std::atomic<bool> is_handed_out_{false};
    kept_owners kept_;  // what commands may still use
    // Guards recordings of the two events, and covered_. Held during calls of the driver, so no callback may lock it:
    // such a call may wait until the GPU is idle, and the GPU for the callback.
    std::mutex mutex_;
    ticket covered_ = 0;
    const std::shared_ptr<host_works> host_works_;
};

}  // namespace sluice::cuda

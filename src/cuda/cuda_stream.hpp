// A stream on a GPU: a cudaStream_t, one event for handing work over to other streams, recorded only when one
// asks, one for threads that sleep, and a word of pinned memory that the stream writes when somebody waits.
//
// Invariants: covered_ is a ticket that handover_'s last recording comes after. Recording it again only moves
// it later, so whoever waits for an older recording waits for enough. armed_ is the ticket that the last write to
// the flag comes after and will put there.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "cuda/api/runtime.hpp"
#include "cuda/commands_in_flight.hpp"
#include "cuda/event_pool.hpp"
#include "sluice/runtime/interpreter.hpp"
#include "sluice/runtime/outcome.hpp"

namespace sluice::cuda {

class cuda_stream final : public stream_interpreter {
public:
    cuda_stream(command_queue& owner, int ordinal, const stream_options& options, std::shared_ptr<event_pool> marks);
    ~cuda_stream() override;

    void copy(const command_info& info, const copy_command& command) override;
    void fill(const command_info& info, const fill_command& command) override;
    void launch(const command_info& info, const launch_command& command) override;
    std::exception_ptr library_call(const command_info& info, const library_command& command) override;
    void host_call(const command_info& info, host_command command) override;
    void graph(const command_info& info, const graph_command& command) override;
    ticket wait_for(stream_interpreter& other, ticket upto) override;
    std::unique_ptr<timed_mark> mark() override;

    native_stream native() const noexcept override;
    ticket passed() const noexcept override { return passed_.load(std::memory_order_acquire); }
    void poll() noexcept override;
    void await(ticket upto, wait_mode mode) override;
    void abandon() noexcept override;
    void begin_range(const char* name) noexcept override { api::begin_range(name); }
    void end_range() noexcept override { api::end_range(); }
    bool needs_watching() const noexcept override { return true; }
    void arm(ticket upto) noexcept override;
    ticket sighted() const noexcept override;

    commands_in_flight& in_flight() noexcept { return in_flight_; }

private:
    struct host_work;
    struct free_flag {
        void operator()(std::uint64_t* flag) const noexcept { api::free_pinned(flag); }
    };

    template <typename Call>
    void checked(const command_info& info, Call&& call);
    template <typename Enqueue>
    void enqueue(const command_info& info, Enqueue&& call, bool runs_kernels = false);
    CUfunc_st* find_kernel(const launch_command& command, const error_context& context);
    ticket hand_over(ticket upto);
    void await_stream(wait_mode mode);
    void keep_until_next(const std::shared_ptr<const void>& owner);
    void drop_passed_owners();
    void has_passed(ticket number) noexcept;
    // The device has faulted, the driver says so with this code: poisons it.
    void report_fault(int code, std::string_view call) noexcept;

    command_queue& owner_;
    const int ordinal_;
    const std::shared_ptr<event_pool> marks_;
    api::stream_handle stream_;
    api::event_handle handover_;
    api::event_handle sleeping_;
    std::unique_ptr<std::uint64_t, free_flag> flag_;
    std::atomic<ticket> passed_{0};
    ticket armed_ = 0;  // with the stream's lock
    struct known_kernel {
        const void* symbol = nullptr;
        CUfunc_st* kernel = nullptr;
        std::size_t shared_bytes = 48 * 1024;  // that a launch may ask for; more has to be allowed first
    };
    std::array<known_kernel, 64> known_kernels_;  // by a hash of the symbol; the last one wins
    commands_in_flight in_flight_;
    std::mutex mutex_;  // guards the two events' recordings, and what follows
    ticket covered_ = 0;
    struct kept_owner {
        ticket until;
        std::shared_ptr<const void> owner;
    };
    std::atomic<bool> keeps_owners_{false};  // whether the next has any: asked on the way of each copy
    std::deque<kept_owner> kept_owners_;     // of host memory that copies may still use
    std::unique_ptr<host_work> host_work_;   // that has not run: a list, the latest first
};

}  // namespace sluice::cuda

// A stream on a GPU: a cudaStream_t, one event for handing work over to other streams, recorded only when one
// asks, and one for threads that sleep.
//
// Invariant: covered_ is a ticket that handover_'s last recording comes after. Recording it again only moves
// it later, so whoever waits for an older recording waits for enough.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>

#include "cuda/api/runtime.hpp"
#include "runtime/failure_log.hpp"
#include "sluice/runtime/interpreter.hpp"

namespace sluice::cuda {

class cuda_stream final : public stream_interpreter {
public:
    cuda_stream(stream& owner, int ordinal, const stream_options& options);
    ~cuda_stream() override;

    void copy(const command_info& info, const copy_command& command) override;
    void fill(const command_info& info, const fill_command& command) override;
    void launch(const command_info& info, const launch_command& command) override;
    std::exception_ptr library_call(const command_info& info, const library_command& command) override;
    void host_call(const command_info& info, host_command command) override;
    ticket wait_for(stream_interpreter& other, ticket upto) override;
    std::unique_ptr<timed_mark> mark() override;

    native_stream native() const noexcept override { return {device_kind::cuda, stream_.get(), &owner_}; }
    ticket passed() const noexcept override { return passed_.load(std::memory_order_acquire); }
    void poll() noexcept override;
    void await(ticket upto, wait_mode mode) override;
    void rethrow_failure(ticket after, ticket upto, std::thread::id submitter) override {
        failures_.rethrow(after, upto, submitter);
    }

private:
    struct host_work;

    template <typename Enqueue>
    void enqueue(const command_info& info, Enqueue&& call);
    CUfunc_st* find_kernel(const void* symbol, const error_context& context);
    ticket hand_over(ticket upto);
    void await_stream(wait_mode mode);
    void drop_passed_owners();
    void has_passed(ticket number) noexcept;

    stream& owner_;
    const int ordinal_;
    api::stream_handle stream_;
    api::event_handle handover_;
    api::event_handle sleeping_;
    std::atomic<ticket> passed_{0};
    struct known_kernel {
        const void* symbol = nullptr;
        CUfunc_st* kernel = nullptr;
    };
    std::array<known_kernel, 64> known_kernels_;  // by a hash of the symbol; the last one wins
    std::mutex mutex_;                            // guards the two events' recordings, covered_ and kept_owners_
    ticket covered_ = 0;
    struct kept_owner {
        ticket until;
        std::shared_ptr<const void> owner;
    };
    std::deque<kept_owner> kept_owners_;  // of pinned sources that copies may still read
    detail::failure_log failures_;
};

}  // namespace sluice::cuda

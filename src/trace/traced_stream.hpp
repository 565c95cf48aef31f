// SPDX-License-Identifier: Apache-2.0
// traced_stream: a stream whose commands are recorded. It enqueues each command on the wrapped interpreter between two
// marks.
//
// When a mark cannot be created, only the record of its command is lost.
#pragma once

#include <memory>

#include "sluice/runtime/interpreter.hpp"
#include "trace/trace_log.hpp"

namespace sluice::detail {

class traced_stream final : public stream_interpreter {
public:
    traced_stream(std::unique_ptr<stream_interpreter> inner, const command_queue& owner, std::shared_ptr<trace_log> log,
                  std::shared_ptr<trace_track> track)
        : inner_(std::move(inner)), owner_(owner), log_(std::move(log)), track_(std::move(track)) {}

    void copy(const command_info& info, const copy_command& command) override;
    void fill(const command_info& info, const fill_command& command) override;
    void launch(const command_info& info, const launch_command& command) override;
    std::exception_ptr library_call(const command_info& info, const library_command& command) override;
    void host_call(const command_info& info, host_command command) override;
    void graph(const command_info& info, const graph_command& command) override;
    ticket order_after(stream_interpreter& other, ticket upto) override;
    std::unique_ptr<timed_mark> mark() override { return inner_->mark(); }

    void submit_kept() noexcept override { inner_->submit_kept(); }
    stream_interpreter& undecorated() noexcept override { return inner_->undecorated(); }
    void begin_range(const char* name) noexcept override { inner_->begin_range(name); }
    void end_range() noexcept override { inner_->end_range(); }
    native_stream native() const noexcept override { return inner_->native(); }
    ticket passed() const noexcept override { return inner_->passed(); }
    void poll() noexcept override { inner_->poll(); }
    void wait(ticket upto, wait_mode mode) override { inner_->wait(upto, mode); }
    void abandon() noexcept override { inner_->abandon(); }
    void trim() noexcept override { inner_->trim(); }
    bool change(const stream_options& options) noexcept override { return inner_->change(options); }
    void attach(std::optional<void*> foreign) override { inner_->attach(foreign); }
    bool needs_watching() const noexcept override { return inner_->needs_watching(); }
    void arm(ticket upto) noexcept override { inner_->arm(upto); }
    ticket last_flag() const noexcept override { return inner_->last_flag(); }

private:
    template <typename Enqueue>
    void record(const command_info& info, trace_kind kind, std::size_t bytes, Enqueue&& enqueue);
    std::unique_ptr<timed_mark> begin() noexcept;
    void end(const command_info& info, trace_kind kind, std::size_t bytes, std::unique_ptr<timed_mark> start) noexcept;
    void settle_some(std::size_t outstanding);

    const std::unique_ptr<stream_interpreter> inner_;
    const command_queue& owner_;
    const std::shared_ptr<trace_log> log_;
    const std::shared_ptr<trace_track> track_;
};

}  // namespace sluice::detail

// SPDX-License-Identifier: Apache-2.0
// traced_device: a device whose streams are recorded. Every other call goes to the wrapped interpreter.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/runtime/interpreter.hpp"
#include "trace/trace_log.hpp"

namespace sluice::detail {

class traced_device final : public device_interpreter {
public:
    // `name` is the device's: "cpu:0".
    traced_device(std::unique_ptr<device_interpreter> inner, std::shared_ptr<trace_log> log, std::string_view name);

    std::unique_ptr<stream_interpreter> make_stream(command_queue& owner, const stream_options& options) override;
    void close() noexcept override;
    std::unique_ptr<graph_program> instantiate(device& owner, command_graph commands) override {
        return inner_->instantiate(owner, std::move(commands));
    }

    device_interpreter& undecorated() noexcept override { return inner_->undecorated(); }
    stream_options nearest(const stream_options& asked) const override { return inner_->nearest(asked); }
    device_kind kind() const noexcept override { return inner_->kind(); }
    const device_properties& properties() const noexcept override { return inner_->properties(); }
    memory_source& device_memory() noexcept override { return inner_->device_memory(); }
    memory_source& host_memory() noexcept override { return inner_->host_memory(); }
    wait_mode default_wait_mode() const noexcept override { return inner_->default_wait_mode(); }
    bool runs_library_calls_later() const noexcept override { return inner_->runs_library_calls_later(); }
    bool runs_kernels_later() const noexcept override { return inner_->runs_kernels_later(); }
    access_record* access_report() noexcept override { return inner_->access_report(); }
    bool shares_host_memory() const noexcept override { return inner_->shares_host_memory(); }
    bool fails_alone() const noexcept override { return inner_->fails_alone(); }
    bool is_own_thread() const noexcept override { return inner_->is_own_thread(); }
    bool is_pinned(const void* data, std::size_t bytes) const noexcept override {
        return inner_->is_pinned(data, bytes);
    }
    int ordinal() const noexcept override { return inner_->ordinal(); }
    std::string why_unusable(const void* data, std::size_t bytes) const override {
        return inner_->why_unusable(data, bytes);
    }
    bool owns(const void* data) const noexcept override { return inner_->owns(data); }

private:
    const std::unique_ptr<device_interpreter> inner_;
    const std::shared_ptr<trace_log> log_;
    const std::size_t index_;  // in the log
    const std::shared_ptr<trace_clock> clock_;
    std::mutex mutex_;  // guards tracks_
    std::vector<std::shared_ptr<trace_track>> tracks_;
};

}  // namespace sluice::detail

// SPDX-License-Identifier: Apache-2.0
// The device interpreter of a GPU.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "cuda/callback_scope.hpp"
#include "cuda/cuda_memory.hpp"
#include "cuda/event_pool.hpp"
#include "sluice/base/detail/access.hpp"
#include "sluice/cuda/device_context.hpp"
#include "sluice/runtime/interpreter.hpp"

namespace sluice::cuda {

class cuda_device final : public device_interpreter {
public:
    explicit cuda_device(int ordinal);

    device_kind kind() const noexcept override { return device_kind::cuda; }
    const device_properties& properties() const noexcept override { return properties_; }
    std::unique_ptr<stream_interpreter> make_stream(command_queue& owner, const stream_options& options) override;
    stream_options nearest(const stream_options& asked) const override;
    std::unique_ptr<graph_program> instantiate(sluice::device& owner, command_graph commands) override;
    memory_source& device_memory() noexcept override { return device_memory_; }
    memory_source& host_memory() noexcept override { return pinned_memory_; }
    wait_mode default_wait_mode() const noexcept override { return wait_mode::spin; }
    bool runs_library_calls_later() const noexcept override { return false; }
    sluice::detail::access_record* access_report() noexcept override;
    // The access out of range that a kernel has left before it ended with a trap, or null.
    const sluice::detail::access_record* reported_access() const noexcept;
    bool shares_host_memory() const noexcept override { return false; }
    bool is_pinned(const void* data, std::size_t bytes) const noexcept override {
        return bytes != 0 && api::is_pinned(data) && api::is_pinned(static_cast<const char*>(data) + bytes - 1);
    }
    bool is_own_thread() const noexcept override { return callback_scope::is_active(); }
    int ordinal() const noexcept override { return native_.ordinal(); }
    std::string why_unusable(const void* data, std::size_t bytes) const override {
        return api::why_not_memory_of(native_.ordinal(), data, bytes);
    }
    bool owns(const void* data) const noexcept override { return api::is_memory_of(native_.ordinal(), data); }
    // After a fault all CUDA calls of the process fail, for every GPU (seen on two H200s with driver 580; CUDA's manual
    // says that the process has to be restarted). A reset by other code is about one GPU.
    bool fails_alone() const noexcept override { return native_.was_reset(); }
    void close() noexcept override {}

    device_context& context() noexcept { return context_; }
    const api::gpu_context& native() const noexcept { return native_; }

private:
    const api::gpu_context& native_;
    device_properties properties_;
    class device_memory device_memory_;
    pinned_memory pinned_memory_;
    device_context context_;
    const std::shared_ptr<event_pool> marks_ = std::make_shared<event_pool>();
    std::once_flag access_record_is_made_;
    api::pinned_object<sluice::detail::access_record> access_record_;
    std::atomic<sluice::detail::access_record*> shown_access_record_ = nullptr;
};

}  // namespace sluice::cuda

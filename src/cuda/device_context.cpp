// SPDX-License-Identifier: Apache-2.0
#include "sluice/cuda/device_context.hpp"

#include <map>
#include <mutex>
#include <new>
#include <string>

#include "cuda/api/handles.hpp"
#include "cuda/api/runtime.hpp"
#include "cuda/api/staying_kernels.hpp"
#include "cuda/cublaslt_plans.hpp"
#include "cuda/cuda_device.hpp"
#include "cuda/cudnn_library.hpp"
#include "runtime/runtime_log.hpp"
#include "sluice/base/error.hpp"

namespace sluice::cuda {

struct device_context::handles {
    explicit handles(const api::gpu_context& context) noexcept : of(context) {}

    const api::gpu_context& of;
    std::mutex mutex;
    std::unique_ptr<class cublaslt> cublaslt;
    std::unique_ptr<cudnn_library> convolutions;
    template <typename Handle>
    struct bound {
        Handle handle;
        CUstream_st* to = nullptr;  // a queue may be given another foreign stream
    };
    std::map<command_queue*, bound<api::cublas_handle>> cublas;
    std::map<command_queue*, bound<api::cudnn_handle>> cudnn;
    std::mutex making;
    std::map<std::type_index, std::shared_ptr<void>> kept;
};

device_context::device_context(int ordinal, const device_properties& properties)
    : ordinal_(ordinal), properties_(properties), handles_(std::make_unique<handles>(api::gpu_context::of(ordinal))) {}

// The handles are destroyed after the streams that they were bound to, which the libraries permit: the work is
// complete. They free memory of their device, which must be current.
device_context::~device_context() {
    const api::device_scope scope(handles_->of, std::nothrow);
    if (scope.is_open()) {
        handles_.reset();
    } else {
        static_cast<void>(handles_.release());  // what they stand for is gone, and the libraries would use it
    }
}

device_context& device_context::of(device& gpu) {
    if (gpu.kind() != device_kind::cuda)
        throw error(errc::invalid_argument, "this device is not a GPU", {"", gpu.name()});
    device_context& made = static_cast<cuda_device&>(gpu.interpreter().undecorated()).context();
    if (made.device_.load(std::memory_order_relaxed) == nullptr) made.device_.store(&gpu, std::memory_order_relaxed);
    return made;
}

void device_context::log_handle(std::string_view library) const noexcept {
    const device* const gpu = device_.load(std::memory_order_relaxed);
    if (gpu == nullptr) return;
    gpu->log().write(
        {.level = log_level::debug, .event = log_event::library_handle, .device = gpu->name(), .name = library},
        [&] { return "a handle of " + std::string(library) + " was made for " + gpu->name(); });
}

cublaslt& device_context::matmul() {
    const std::lock_guard lock(handles_->mutex);
    if (!handles_->cublaslt) {
        const api::no_staying_kernel none_stays("create a handle of cuBLASLt", {"cuBLASLt"});
        const api::device_scope scope(handles_->of);
        handles_->cublaslt = std::make_unique<cublaslt>();
        log_handle("cuBLASLt");
    }
    return *handles_->cublaslt;
}

cudnn_library& device_context::convolutions() {
    const std::lock_guard lock(handles_->mutex);
    if (!handles_->convolutions) {
        const api::no_staying_kernel none_stays("create a handle of cuDNN", {"cuDNN"});
        handles_->convolutions = std::make_unique<cudnn_library>(ordinal_);
        if (handles_->convolutions->is_installed()) log_handle("cuDNN");
    }
    return *handles_->convolutions;
}

cublasLtContext* device_context::cublaslt_handle() { return reinterpret_cast<cublasLtContext*>(matmul().handle()); }

cublasContext* device_context::cublas(stream on) {
    const std::lock_guard lock(handles_->mutex);
    const api::device_scope scope(handles_->of);
    auto& bound = handles_->cublas[&on.queue()];
    auto* const native = static_cast<CUstream_st*>(on.native().handle);
    if (!bound.handle || bound.to != native) {
        const api::no_staying_kernel none_stays("create a handle of cuBLAS", {"cuBLAS"});
        bound = {api::create_cublas(native), native};
        log_handle("cuBLAS");
    }
    return bound.handle.get();
}

cudnnContext* device_context::cudnn(stream on) {
    const std::lock_guard lock(handles_->mutex);
    const api::device_scope scope(handles_->of);
    auto& bound = handles_->cudnn[&on.queue()];
    auto* const native = static_cast<CUstream_st*>(on.native().handle);
    if (!bound.handle || bound.to != native) {
        const api::no_staying_kernel none_stays("create a handle of cuDNN", {"cuDNN"});
        bound = {api::create_cudnn(native), native};
        log_handle("cuDNN");
    }
    return bound.handle.get();
}

void* device_context::kept(std::type_index what, std::shared_ptr<void> (*make)(device_context& of)) {
    const std::lock_guard lock(handles_->making);
    std::shared_ptr<void>& slot = handles_->kept[what];
    if (!slot) slot = make(*this);
    return slot.get();
}

const device_properties& device_context::properties() const noexcept { return properties_; }

memory_info device_context::free_memory() const { return api::memory(handles_->of); }

}  // namespace sluice::cuda

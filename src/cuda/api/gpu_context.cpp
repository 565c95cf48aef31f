// SPDX-License-Identifier: Apache-2.0
#include "cuda/api/gpu_context.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <string>

#include "cuda/api/driver.hpp"
#include "cuda/api/driver_entry.hpp"
#include "cuda/api/error.hpp"

namespace sluice::cuda::api {
namespace {

// Never destroyed, like the contexts in it: handles may be destroyed while the process ends.
struct context_list {
    std::mutex mutex;
    std::array<std::atomic<const gpu_context*>, 256> latest{};
};
context_list& contexts() {
    static auto* const made = new context_list;
    return *made;
}

std::atomic<const gpu_context*>& latest_of(int ordinal) {
    context_list& all = contexts();
    if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= all.latest.size())
        throw error(errc::device_not_found, "there is no GPU " + std::to_string(ordinal));
    return all.latest[static_cast<std::size_t>(ordinal)];
}

const gpu_context*& innermost_of_thread() noexcept {
    thread_local const gpu_context* innermost = nullptr;
    return innermost;
}

CUresult why_unusable(const gpu_context& of) noexcept {
    return why_unusable(entry_functions::of_driver(), of.native(), of.id());
}

}  // namespace

const entry_functions& entry_functions::of_driver() {
    static const entry_functions all{
        .id_of = driver_function<decltype(&cuCtxGetId)>("cuCtxGetId"),
        .current = driver_function<decltype(&cuCtxGetCurrent)>("cuCtxGetCurrent"),
        .push = driver_function<decltype(&cuCtxPushCurrent)>("cuCtxPushCurrent"),
        .pop = driver_function<decltype(&cuCtxPopCurrent)>("cuCtxPopCurrent"),
        .exchange_mode =
            driver_function<decltype(&cuThreadExchangeStreamCaptureMode)>("cuThreadExchangeStreamCaptureMode"),
    };
    return all;
}

const char* words_for_lost(int code) noexcept {
    switch (code) {
        case CUDA_ERROR_CONTEXT_IS_DESTROYED:
            return "other code of this process has reset the GPU (cudaDeviceReset): the memory and the streams of this "
                   "runtime are gone; make a new runtime";
        case CUDA_ERROR_NOT_INITIALIZED:
            return "this process is a child of fork, where CUDA cannot use what its parent has made: make the runtime "
                   "after the fork";
        case CUDA_ERROR_DEINITIALIZED: return "the process ends, and CUDA has ended already";
        case CUDA_ERROR_NOT_PERMITTED: return "CUDA cannot be called on a thread that runs a host call";
        default: return "";
    }
}

const gpu_context& gpu_context::of(int ordinal) {
    const gpu_context* const known = latest_of(ordinal).load(std::memory_order_acquire);
    return known != nullptr ? *known : renewed(ordinal);
}

const gpu_context& gpu_context::renewed(int ordinal) {
    static const auto initialize = driver_function<decltype(&cuInit)>("cuInit");
    static const auto device = driver_function<decltype(&cuDeviceGet)>("cuDeviceGet");
    static const auto retain = driver_function<decltype(&cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain");
    auto& latest = latest_of(ordinal);
    const std::lock_guard lock(contexts().mutex);
    const gpu_context* const known = latest.load(std::memory_order_relaxed);
    if (known != nullptr && known->is_usable()) return *known;
    const auto require = [&](CUresult code, const char* call) {
        if (const std::string words = words_for_lost(code); !words.empty())
            throw device_error({code, category()}, words, {"", "cuda:" + std::to_string(ordinal)});
        check_driver(code, call, {"", "cuda:" + std::to_string(ordinal)});
    };
    require(initialize(0), "cuInit");
    CUdevice its_number = 0;
    CUcontext made = nullptr;
    unsigned long long id = 0;
    require(device(&its_number, ordinal), "cuDeviceGet");
    require(retain(&made, its_number), "cuDevicePrimaryCtxRetain");
    require(entry_functions::of_driver().id_of(made, &id), "cuCtxGetId");
    const auto* const fresh = new gpu_context(ordinal, made, id);
    latest.store(fresh, std::memory_order_release);
    return *fresh;
}

bool gpu_context::is_usable() const noexcept { return why_unusable(*this) == CUDA_SUCCESS; }
bool gpu_context::was_reset() const noexcept { return why_unusable(*this) == CUDA_ERROR_CONTEXT_IS_DESTROYED; }

device_scope::device_scope(const gpu_context& of, std::nothrow_t) noexcept : outer_(innermost_of_thread()) {
    const driver_entry made = enter(entry_functions::of_driver(), of.native(), of.id());
    code_ = made.code;
    has_pushed_ = made.has_pushed;
    mode_before_ = made.mode_before;
    if (is_open()) innermost_of_thread() = &of;
}

device_scope::device_scope(const gpu_context& of) : device_scope(of, std::nothrow) {
    if (is_open()) return;
    const std::string words = words_for_lost(code_);
    const error_context where{"", "cuda:" + std::to_string(of.ordinal())};
    if (!words.empty()) throw device_error({code_, category()}, words, where);
    fail(code_, "cuCtxPushCurrent", where);
}

device_scope::~device_scope() {
    if (!is_open()) return;
    innermost_of_thread() = outer_;
    leave(entry_functions::of_driver(), {CUDA_SUCCESS, has_pushed_, static_cast<CUstreamCaptureMode>(mode_before_)});
}

const gpu_context* device_scope::innermost() noexcept { return innermost_of_thread(); }

}  // namespace sluice::cuda::api

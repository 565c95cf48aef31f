// SPDX-License-Identifier: Apache-2.0
// What differs for a stream that belongs to the caller: it is attached and detached, the caller may capture it, and it
// may be taken back while threads wait.
#include <optional>
#include <thread>

#include "cuda/api/error.hpp"
#include "cuda/cuda_stream.hpp"
#include "sluice/base/error.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::cuda {

void cuda_stream::attach(std::optional<void*> foreign) {
    if (!foreign) {
        is_detached_ = true;
        while (waiting_ != 0) std::this_thread::yield();  // their commands are complete
        const std::lock_guard lock(mutex_);
        handle_ = nullptr;
        return;
    }
    auto* const theirs = static_cast<CUstream_st*>(*foreign);
    const api::device_scope scope(context_);
    const error_context context{"foreign_stream", owner_.owner().name(), {}};
    if (api::is_per_thread(theirs)) {
        throw error(errc::unsupported, "cudaStreamPerThread is another stream on each thread: create a stream",
                    context);
    }
    if (api::is_capturing(theirs)) throw error(errc::invalid_argument, "the stream is being captured", context);
    if (const int home = api::ordinal_of(theirs); home != context_.ordinal()) {
        throw error(errc::invalid_argument, "the stream belongs to the GPU that CUDA numbers " + std::to_string(home),
                    context);
    }
    const std::lock_guard lock(mutex_);
    handle_ = theirs;
    is_detached_ = false;
}

// The caller may capture the stream, or take it back and destroy it while another thread polls.
void cuda_stream::poll_foreign() noexcept {
    int code = api::success;
    {
        const api::device_scope scope(context_, std::nothrow);
        const std::lock_guard lock(mutex_);
        const ticket issued = owner_.issued();
        if (!scope.is_open()) return notice(scope.code(), "cuStreamQuery");
        if (passed() >= issued || owner_.owner().is_poisoned() || api::is_capturing(handle_)) return;
        const ticket seen = last_flag();
        code = api::query(handle_);
        if (code == api::success) return has_passed(issued);
        if (code == api::not_ready) has_passed(seen);
    }
    notice(code, "cuStreamQuery");
}

void cuda_stream::await_stream(wait_mode mode) {
    if (stream_ != nullptr) return await_handle(mode);
    struct waiting {
        explicit waiting(std::atomic<int>& all) noexcept : count(all) { ++count; }
        waiting(const waiting&) = delete;  // counts itself
        waiting& operator=(const waiting&) = delete;
        ~waiting() { --count; }
        std::atomic<int>& count;
    };
    const waiting counted(waiting_);
    if (!is_detached_) await_handle(mode);  // else all commands are complete
}

}  // namespace sluice::cuda

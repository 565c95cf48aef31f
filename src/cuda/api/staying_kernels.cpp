// SPDX-License-Identifier: Apache-2.0
#include "cuda/api/staying_kernels.hpp"

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace sluice::cuda::api {
namespace {

struct noted {
    freed_memory memory;
    void (*free)(const freed_memory&) noexcept;
};

struct note_list {
    std::mutex mutex;
    std::condition_variable none_runs;
    std::size_t kernels = 0;
    std::size_t running = 0;  // calls that would wait for a kernel that stays; then there is none
    std::vector<noted> all;
};

// Never destroyed: memory may be freed while the process ends.
note_list& notes() noexcept {
    static auto* const made = new note_list;
    return *made;
}

void end_call() noexcept {
    const std::lock_guard lock(notes().mutex);
    if (--notes().running == 0) notes().none_runs.notify_all();
}

}  // namespace

bool begin_staying_kernel(std::chrono::nanoseconds longest) noexcept {
    std::unique_lock lock(notes().mutex);
    if (!notes().none_runs.wait_for(lock, longest, [] { return notes().running == 0; })) return false;
    ++notes().kernels;
    return true;
}

void end_staying_kernel() noexcept {
    std::vector<noted> over;
    {
        const std::lock_guard lock(notes().mutex);
        if (--notes().kernels != 0) return;
        over.swap(notes().all);
        ++notes().running;
    }
    for (const noted& each : over) each.free(each.memory);
    end_call();
}

void free_when_possible(const freed_memory& memory, void (*free)(const freed_memory&) noexcept) noexcept {
    {
        const std::lock_guard lock(notes().mutex);
        if (notes().kernels != 0) {
            try {
                notes().all.push_back({memory, free});
            } catch (...) {  // NOLINT(bugprone-empty-catch): no memory for the note; a leak is better than a hang
            }
            return;
        }
        ++notes().running;
    }
    free(memory);
    end_call();
}

no_staying_kernel::no_staying_kernel(std::string_view what, const error_context& context) {
    const std::lock_guard lock(notes().mutex);
    if (notes().kernels != 0) {
        throw error(errc::unsupported,
                    "cannot " + std::string(what) +
                        " while a kernel stays on a GPU: CUDA would wait for its end; do it before that kernel starts",
                    context);
    }
    ++notes().running;
}

no_staying_kernel::~no_staying_kernel() { end_call(); }

}  // namespace sluice::cuda::api

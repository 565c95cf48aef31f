// SPDX-License-Identifier: Apache-2.0
#include "cuda/api/staying_kernels.hpp"

#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace sluice::cuda::api {
namespace {

struct noted {
    void* data;
    void (*free)(void*) noexcept;
};

struct note_list {
    std::mutex mutex;
    std::size_t kernels = 0;
    std::vector<noted> all;
};

// Never destroyed: memory may be freed while the process ends.
note_list& notes() noexcept {
    static auto* const made = new note_list;
    return *made;
}

}  // namespace

void begin_staying_kernel() noexcept {
    const std::lock_guard lock(notes().mutex);
    ++notes().kernels;
}

void end_staying_kernel() noexcept {
    std::vector<noted> over;
    {
        const std::lock_guard lock(notes().mutex);
        if (--notes().kernels == 0) over.swap(notes().all);
    }
    for (const noted& each : over) each.free(each.data);
}

void free_when_possible(void* data, void (*free)(void*) noexcept) noexcept {
    {
        const std::lock_guard lock(notes().mutex);
        if (notes().kernels != 0) {
            try {
                notes().all.push_back({data, free});
            } catch (...) {  // NOLINT(bugprone-empty-catch): no memory for the note; a leak is better than a hang
            }
            return;
        }
    }
    free(data);
}

void require_no_staying_kernel(std::string_view what, const error_context& context) {
    const std::lock_guard lock(notes().mutex);
    if (notes().kernels == 0) return;
    throw error(errc::unsupported,
                "cannot " + std::string(what) +
                    " while a network stays on a GPU: CUDA would wait for its end; do it before the network is made",
                context);
}

}  // namespace sluice::cuda::api

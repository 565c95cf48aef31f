// SPDX-License-Identifier: Apache-2.0
// The host callbacks of a stream that have not begun. They keep the list alive, and it keeps them: after a fault it is
// not known whether the driver will still call them, even when the stream is destroyed.
//
// Thread safety: all members may be called on any thread. Functions are called and destroyed without locks, since they
// are the user's.
#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "cuda/graph_host_calls.hpp"
#include "sluice/runtime/detail/outcome.hpp"

namespace sluice::cuda {

struct host_work;

class host_works : public std::enable_shared_from_this<host_works> {
public:
    host_works();
    host_works(const host_works&) = delete;  // callbacks point to it
    host_works& operator=(const host_works&) = delete;
    ~host_works();

    // Lists a callback that settles the outcome. `of_graph` is null, or the host calls before it, which the driver may
    // also call late.
    host_work& add(std::function<void()> call, detail::outcome_ref outcome, std::shared_ptr<graph_host_calls> of_graph);
    // The driver does not have it.
    static void remove(host_work& work) noexcept;
    // The function for the driver; its argument is a host_work.
    static void run(void* erased);

    // Destroys the functions. What the driver may call stays.
    void abandon() noexcept;

private:
    static std::unique_ptr<host_work> take_over(host_work& work) noexcept;

    std::mutex mutex_;                   // held for a few pointer moves only
    std::unique_ptr<host_work> latest_;  // a list; it owns each until the callback runs, then the callback does
};

}  // namespace sluice::cuda

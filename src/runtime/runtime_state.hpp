// SPDX-License-Identifier: Apache-2.0
// runtime_state: the shared state of a runtime and of everything that was created on its devices, with a reference
// count.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "runtime/completion_service.hpp"
#include "runtime/host_call_end.hpp"
#include "runtime/kept_memory.hpp"
#include "runtime/runtime_log.hpp"
#include "runtime/staying_work.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::detail {

class runtime_state {
public:
    explicit runtime_state(completion_service::mode how = completion_service::mode::threaded) : service(how) {}
    runtime_state(const runtime_state&) = delete;  // devices point to it
    runtime_state& operator=(const runtime_state&) = delete;

    void retain() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
    void release() noexcept {
        if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
    }
    void close() noexcept {
        for (const auto& each : devices) each->close();
        kept_.close();  // nothing runs any more
        service.close();
        log.end();
    }

    // Memory of others that commands of a faulted device may still use: keeps it until close(). False when the devices
    // are closed already: nothing uses it any more.
    bool keep(foreign_storage& lost) noexcept { return kept_.add(lost); }

    // In a child of fork. None of the parent's threads exists there, and no GPU can be called: nothing can be closed.
    bool is_of_parent() const noexcept { return getpid() != process_; }

    // For a thread of one of the devices that drops the runtime. It cannot wait for its device, so the completion
    // thread closes and releases the runtime instead; on a thread of a GPU's driver, when the host call has returned.
    bool is_own_thread() const noexcept {
        return std::ranges::any_of(devices, [](const auto& each) { return each->interpreter().is_own_thread(); });
    }
    void close_and_release_elsewhere() noexcept {
        if (!host_call_end::add(posting_)) service.post(closing_);
    }

    std::size_t next_queue_number() noexcept { return queues_.fetch_add(1, std::memory_order_relaxed); }

    static staying_works& staying_works_of(device& on) noexcept;

    runtime_log log;             // before all that writes to it
    completion_service service;  // before the devices: their streams use it
    staying_works staying;

    std::vector<std::unique_ptr<device>> devices;
    std::string why_no_gpu;

private:
    struct closing_item final : work_item {
        explicit closing_item(runtime_state& whose) noexcept
            : work_item([](work_item& self) noexcept {
                  runtime_state& state = static_cast<closing_item&>(self).of;
                  state.close();
                  state.release();
              }),
              of(whose) {}
        runtime_state& of;
    };

    struct posting_item final : host_call_end::item {
        explicit posting_item(runtime_state& whose) noexcept
            : item{[](item& self) noexcept {
                  runtime_state& state = static_cast<posting_item&>(self).of;
                  state.service.post(state.closing_);
              }},
              of(whose) {}
        runtime_state& of;
    };

    ~runtime_state() = default;
    closing_item closing_{*this};
    posting_item posting_{*this};
    const pid_t process_ = getpid();
    kept_memory kept_;
    std::atomic<long> references_{1};
    std::atomic<std::size_t> queues_{0};
};

}  // namespace sluice::detail

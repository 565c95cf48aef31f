// What a runtime and everything made on its devices keep alive together, by a count of references.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "runtime/completion_service.hpp"
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
        service.close();
    }

    std::size_t next_queue_number() noexcept { return queues_.fetch_add(1, std::memory_order_relaxed); }

    completion_service service;  // before the devices: their streams tell it

    std::vector<std::unique_ptr<device>> devices;
    std::string why_no_gpu;

private:
    ~runtime_state() = default;
    std::atomic<long> references_{1};
    std::atomic<std::size_t> queues_{0};
};

}  // namespace sluice::detail

// SPDX-License-Identifier: Apache-2.0
// Ordinary host memory, up to a limit.
#pragma once

#include <atomic>
#include <cstddef>

#include "sluice/runtime/interpreter.hpp"

namespace sluice::cpu {

// Physical and available memory of this machine.
std::size_t physical_memory_bytes() noexcept;
std::size_t available_memory_bytes() noexcept;

// How much may be in use at a time. Any thread.
class memory_budget {
public:
    explicit memory_budget(std::size_t limit_bytes) : limit_bytes_(limit_bytes) {}

    // False, and nothing is taken, when less is left.
    bool take(std::size_t bytes) noexcept;
    void give_back(std::size_t bytes) noexcept { used_bytes_.fetch_sub(bytes, std::memory_order_relaxed); }
    std::size_t limit() const noexcept { return limit_bytes_; }
    std::size_t left() const noexcept;

private:
    const std::size_t limit_bytes_;
    std::atomic<std::size_t> used_bytes_{0};
};

// Of all CPU devices of this process, device and host memory together: the machine's memory. Beyond it the system would
// end the process, where a pool can say that memory is out.
memory_budget& budget_of_machine() noexcept;

class cpu_memory final : public memory_source {
public:
    explicit cpu_memory(std::size_t limit_bytes, memory_budget& machine = budget_of_machine())
        : own_(limit_bytes), machine_(machine) {}

    void* allocate(std::size_t bytes) override;
    void free(void* data, std::size_t bytes) noexcept override;
    memory_info info() override;

private:
    memory_budget own_;
    memory_budget& machine_;
};

}  // namespace sluice::cpu

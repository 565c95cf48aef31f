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

class cpu_memory final : public memory_source {
public:
    explicit cpu_memory(std::size_t limit_bytes) : limit_bytes_(limit_bytes) {}

    void* allocate(std::size_t bytes) override;
    void free(void* data, std::size_t bytes) noexcept override;
    memory_info info() override;

private:
    const std::size_t limit_bytes_;
    std::atomic<std::size_t> used_bytes_{0};
};

}  // namespace sluice::cpu

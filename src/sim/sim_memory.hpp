// SPDX-License-Identifier: Apache-2.0
// The memory of a simulated device, or its host memory: blocks with a shadow. Freed blocks are reused, but never
// returned to the system while the simulator exists.
#pragma once

#include <cstddef>
#include <vector>

#include "sim/block.hpp"
#include "sluice/runtime/interpreter.hpp"

namespace sluice::sim::detail {

class sim_machine;

class sim_memory final : public memory_source {
public:
    sim_memory(sim_machine& with, std::size_t device, bool is_host, std::size_t limit_bytes)
        : machine_(with), device_(device), is_host_(is_host), limit_bytes_(limit_bytes) {}
    ~sim_memory() override;

    void* allocate(std::size_t bytes) override;
    void free(void* data, std::size_t bytes) noexcept override;
    memory_info info() override { return {limit_bytes_ - used_bytes_, limit_bytes_}; }
    bool is_divisible() const noexcept override { return false; }  // the shadow of a block lies before it
    void on_allocate(void* data, std::size_t requested_bytes, bool to_host) noexcept override;
    void on_free(void* data) noexcept override;
    void* on_adopt(void* data, std::size_t bytes) override;
    void on_release(void* known_as) noexcept override;
    void on_host_access(void* data, access_mode mode) noexcept override;

private:
    block* make_block(std::size_t data_bytes);  // null when the machine has no memory

    sim_machine& machine_;
    const std::size_t device_;
    const bool is_host_;
    const std::size_t limit_bytes_;
    std::size_t used_bytes_ = 0;
    std::vector<block*> blocks_;
    std::vector<block*> free_;
    std::vector<block*> free_shadows_;  // of memory of others
};

}  // namespace sluice::sim::detail

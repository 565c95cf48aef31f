// The memory of a simulated device, or of the host beside it: blocks with a shadow. What is given back is used again,
// but never returned to the system while the simulator lives.
#pragma once

#include <cstddef>
#include <vector>

#include "sim/block.hpp"
#include "sluice/runtime/interpreter.hpp"

namespace sluice::sim::detail {

class engine;

class sim_memory final : public memory_source {
public:
    sim_memory(engine& with, std::size_t device, bool is_host, std::size_t limit_bytes)
        : engine_(with), device_(device), is_host_(is_host), limit_bytes_(limit_bytes) {}
    ~sim_memory() override;

    void* allocate(std::size_t bytes) override;
    void free(void* data, std::size_t bytes) noexcept override;
    memory_info info() override { return {limit_bytes_ - used_bytes_, limit_bytes_}; }
    void lent(void* data, std::size_t asked_bytes, bool to_host) noexcept override;
    void returned(void* data) noexcept override;
    void touched_by_host(void* data, access_mode mode) noexcept override;

private:
    engine& engine_;
    const std::size_t device_;
    const bool is_host_;
    const std::size_t limit_bytes_;
    std::size_t used_bytes_ = 0;
    std::vector<block*> blocks_;
    std::vector<block*> free_;
};

}  // namespace sluice::sim::detail

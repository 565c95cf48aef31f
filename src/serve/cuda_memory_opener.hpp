// SPDX-License-Identifier: Apache-2.0
// cuda_memory_opener: opens memory of other processes on the GPUs of a runtime (CUDA IPC).
#pragma once

#include "sluice/runtime/runtime.hpp"
#include "sluice/serve/gpu_memory.hpp"

namespace sluice::serve {

class cuda_memory_opener final : public gpu_memory_opener {
public:
    // `machine` must outlive this and what it opens.
    explicit cuda_memory_opener(const runtime& machine) : machine_(machine) {}

    std::string why_not() const override { return std::string(machine_.why_no_gpu()); }
    std::shared_ptr<const gpu_memory> open(std::int64_t device_id, const gpu_memory_handle& handle,
                                           std::uint64_t bytes) const override;

private:
    const runtime& machine_;
};

}  // namespace sluice::serve

// SPDX-License-Identifier: Apache-2.0
// Runs whose outputs stay in the memory of a GPU, and the lending of that memory to streams of others.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "c/handles.hpp"

namespace sluice::c {

// Submits; does not wait for the device. The outputs are in its memory, and no other tensor has theirs. `release` is
// called as sluice_network_forward says: not if this throws.
std::unique_ptr<sluice_result> submit_on_device(const std::shared_ptr<const loaded_network>& network,
                                                std::vector<nn::any_tensor> inputs, sluice_release release,
                                                void* context);

// The memory of outputs on a GPU, and the streams that it was lent to. Dropped, it comes back after their work.
// Thread safety: all members may be called on any thread.
class lent_memory {
public:
    lent_memory(std::shared_ptr<const loaded_network> of, const std::vector<nn::any_tensor>& outputs);
    lent_memory(const lent_memory&) = delete;  // takes the memory back once
    lent_memory& operator=(const lent_memory&) = delete;
    ~lent_memory();

    void lend_to(void* cuda_stream);

private:
    const std::shared_ptr<const loaded_network> network_;
    std::vector<storage_ref> memory_;
    std::vector<storage*> all_;  // of memory_
    std::mutex mutex_;           // guards the rest
    std::vector<void*> streams_;
};

}  // namespace sluice::c

// SPDX-License-Identifier: Apache-2.0
#include "serve/cuda_memory_opener.hpp"

#include "serve/device_bytes.hpp"
#include "serve/region_checks.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/cuda/interprocess.hpp"
#include "sluice/serve/refusal.hpp"

namespace sluice::serve {
namespace {

device& require_gpu(const runtime& machine, std::int64_t device_id) {
    try {
        return machine.find("cuda:" + std::to_string(device_id));
    } catch (const error& failure) {
        refuse_region("'device_id' is " + std::to_string(device_id) + ": " + printable(failure.what()));
    }
}

}  // namespace

std::shared_ptr<const gpu_memory> cuda_memory_opener::open(std::int64_t device_id, const gpu_memory_handle& handle,
                                                           std::uint64_t bytes) const {
    device& on = require_gpu(machine_, device_id);
    try {
        auto whole = cuda::import_allocation<std::byte>(on, {handle}, {static_cast<std::size_t>(bytes)});
        return std::make_shared<device_bytes>(on, std::move(whole));
    } catch (const error& failure) {
        if (on.is_poisoned()) throw refusal(refusal_kind::unavailable, on.name() + " has failed");
        refuse_region("the handle cannot be opened: " + printable(failure.what()) +
                      "; accepted is what cudaIpcGetMemHandle has given another process for memory of " + on.name() +
                      " that cudaMalloc has allocated, and of which it has at least " + std::to_string(bytes) +
                      " bytes");
    }
}

}  // namespace sluice::serve

// SPDX-License-Identifier: Apache-2.0
// device_bytes: memory of a device as bytes that are copied to and from the host, wherever they begin.
#pragma once

#include <cstddef>
#include <memory>

#include "sluice/runtime/device.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/tensor.hpp"
#include "sluice/serve/gpu_memory.hpp"

namespace sluice::serve {

// Each copy has a tensor of its own over the memory, so copies of several threads run at the same time. Those of the
// same bytes are not ordered.
class device_bytes final : public gpu_memory {
public:
    // `on`, the tensor's device, must outlive this.
    device_bytes(device& on, tensor<std::byte> whole);

    void read(std::uint64_t offset, std::span<std::byte> to) const override;
    void write(std::uint64_t offset, std::span<const std::byte> from) const override;

private:
    device& on_;
    std::shared_ptr<tensor<std::byte>> whole_;
    mutable single_stream stream_;
};

}  // namespace sluice::serve

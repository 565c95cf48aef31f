// SPDX-License-Identifier: Apache-2.0
// gpu_memory: memory on a GPU that a client has allocated and shares with the server (CUDA IPC), and who opens it.
//
// The server sees both only through these classes: which devices there are is the engine's to know.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace sluice::serve {

// The bytes of a cudaIpcMemHandle_t.
using gpu_memory_handle = std::array<std::byte, 64>;

// Memory that is open. It is closed when this is destroyed and no copy uses it any more.
class gpu_memory {
public:
    virtual ~gpu_memory() = default;

    // Copies bytes that are in the memory to the host, and blocks until they are there. Throws error when the device
    // fails. Costs O(bytes).
    virtual void read(std::uint64_t offset, std::span<std::byte> to) const = 0;
    // Copies from the host to a part of the memory, and blocks until the bytes are there. Throws as read(). Costs
    // O(bytes).
    virtual void write(std::uint64_t offset, std::span<const std::byte> from) const = 0;
};

// Opens memory that other processes have on GPUs. Thread safety: all members may be called on any thread.
class gpu_memory_opener {
public:
    virtual ~gpu_memory_opener() = default;

    // Why no memory can be opened: "no NVIDIA driver was found". Empty where it can. Costs a copy of the text.
    virtual std::string why_not() const = 0;

    // Opens the first `bytes` of what the handle is of, on the GPU with CUDA's number `device_id`. Blocks, perhaps for
    // milliseconds. Throws refusal: bad_request for a GPU that is not there, and for a handle that CUDA refuses, or
    // whose memory is shorter or on another GPU; unavailable when the GPU has failed. Costs calls of the driver, and
    // what adopt costs.
    virtual std::shared_ptr<const gpu_memory> open(std::int64_t device_id, const gpu_memory_handle& handle,
                                                   std::uint64_t bytes) const = 0;
};

}  // namespace sluice::serve

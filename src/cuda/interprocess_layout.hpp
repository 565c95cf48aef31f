// SPDX-License-Identifier: Apache-2.0
// What is inside the handles of cuda/interprocess.hpp, and the checks of one that arrives.
//
// The bytes come from another process: read() relies on nothing in them. The sum finds damage; it does not prove who
// made the handle.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "sluice/base/error.hpp"
#include "sluice/cuda/interprocess.hpp"

namespace sluice::cuda::interprocess {

using identity = std::array<std::byte, 16>;
using driver_handle = std::array<std::byte, 64>;  // a cudaIpcMemHandle_t, a cudaIpcEventHandle_t

// Who made a handle: of which GPU, and for which machine and process it has a meaning.
struct origin {
    identity machine{};  // of this start of the operating system
    identity process{};
    identity gpu{};  // CUDA's UUID
};
// Of this process and this GPU.
origin origin_here(const identity& gpu);

struct tensor_contents {
    origin from;
    driver_handle allocation{};
    std::uint64_t allocation_bytes = 0;
    std::uint64_t offset = 0;  // of the tensor in the allocation
    sluice::shape shape = sluice::shape::none();
    sluice::detail::exported_element element{};
};
struct event_contents {
    origin from;
    driver_handle event{};
};

// What has been written into the bytes of a handle counts from here on: renews the sum.
void seal(std::span<std::byte> handle);

// The tensor has no more elements than its allocation holds.
tensor_handle write(const tensor_contents& contents);
event_handle write(const event_contents& contents);

// What arrived, checked: it is whole, of this version, from another process of this machine, on this GPU, has this
// element type, may be written if it is to be, and lies within its allocation. Throws as import_tensor says.
tensor_contents read(const tensor_handle& from, const origin& here, sluice::detail::exported_element element,
                     const error_context& context);
event_contents read(const event_handle& from, const origin& here, const error_context& context);

}  // namespace sluice::cuda::interprocess

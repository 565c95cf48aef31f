// SPDX-License-Identifier: Apache-2.0
// lend_to, take_back_from: memory of Sluice for code that works on a stream of its own, without a wait of the host.
//
//     cuda::lend_to(ours, theirs, memory);         // what `theirs` gets from now on sees the contents
//     other_library(address, theirs);
//     cuda::take_back_from(ours, theirs, memory);  // what uses the memory next comes after their work
//
// `ours` is any stream of the memory's GPU. The memory may be dropped after the second call: the pool's next user comes
// after their work. Between the two calls no command of Sluice uses the memory.
//
// Each costs one command on `ours`, which names the memory as written, and an event; neither blocks. `theirs` is a
// cudaStream_t of the same GPU: null and cudaStreamLegacy are the legacy default stream. Errors: errc::unsupported for
// a device that is no GPU, and for cudaStreamPerThread; errc::invalid_argument for a stream that is being captured;
// errc::graph_refused inside a graph; what the device throws.
//
// Thread safety: may be called on any thread.
#pragma once

#include <span>

#include "sluice/base/source_location.hpp"
#include "sluice/runtime/storage.hpp"
#include "sluice/runtime/stream.hpp"

struct CUstream_st;  // a cudaStream_t points to it

namespace sluice::cuda {

void lend_to(stream ours, CUstream_st* theirs, std::span<storage* const> memory,
             const source_location& location = source_location::current());
void take_back_from(stream ours, CUstream_st* theirs, std::span<storage* const> memory,
                    const source_location& location = source_location::current());

}  // namespace sluice::cuda

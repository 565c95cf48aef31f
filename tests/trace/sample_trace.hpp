// SPDX-License-Identifier: Apache-2.0
// sample_trace: the trace of a small pipeline, for tests and for display.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "sluice/trace/trace.hpp"

namespace sluice::testing {

// Adds the next command of a stream to a trace, after the one before it.
class trace_filler {
public:
    trace_filler(trace& to, std::size_t device, std::size_t stream, double start_us)
        : to_(to), device_(device), stream_(stream), now_us_(start_us) {}

    // The command starts `idle_us` after the previous command's end. Returns its ticket.
    std::uint64_t add(trace_kind kind, std::string name, double duration_us, std::string operation = {},
                      std::size_t bytes = 0, double idle_us = 0.4) {
        const double start_us = now_us_ + idle_us;
        now_us_ = start_us + duration_us;
        to_.events.push_back({std::move(name), std::move(operation), device_, stream_, ++ticket_, kind, start_us,
                              now_us_, bytes, "pipeline.cpp:" + std::to_string(40 + ticket_)});
        return ticket_;
    }

private:
    trace& to_;
    std::size_t device_;
    std::size_t stream_;
    double now_us_;
    std::uint64_t ticket_ = 0;
};

// Four streams of one device, each with an upload, two fills, three kernels and a download, and each starting a little
// later than the one before. Streams 1 and 3 wait for the first kernel of the streams above them.
inline trace sample_trace() {
    trace result;
    result.devices = {"cuda:0 NVIDIA H200"};
    const double begins_us[] = {0, 9, 17, 31};
    const double idles_us[] = {0.4, 27.4, 0.4, 40.6};  // before the first kernel: two of them wait
    for (std::size_t stream = 0; stream < 4; ++stream) {
        trace_filler on(result, 0, stream, begins_us[stream]);
        const double slower = 1 + 0.13 * static_cast<double>(stream % 3);
        on.add(trace_kind::host_to_device, "upload", 21 * slower, "images", 1 << 20);
        on.add(trace_kind::fill, "zeros", 2.6, "hidden", 64 << 10);
        on.add(trace_kind::fill, "zeros", 1.4, "logits", 10 << 10);
        on.add(trace_kind::kernel, "sgemm_naive", 38 * slower, "layer 1", 0, idles_us[stream]);
        on.add(stream == 2 ? trace_kind::library_call : trace_kind::kernel, stream == 2 ? "cublasLtMatmul" : "relu",
               stream == 2 ? 22 : 7.5 * slower, "layer 1");
        on.add(trace_kind::kernel, "softmax", 12 * slower, "probabilities");
        on.add(trace_kind::device_to_host, "download", 9 * slower, "probabilities", 40 << 10, 1.5);
    }
    result.waits = {{0, 0, 4, 1, 4}, {0, 2, 4, 3, 4}};
    return result;
}

}  // namespace sluice::testing

// SPDX-License-Identifier: Apache-2.0
// How long a call with pageable memory takes until the source may be changed: ways to upload 16 KiB to 2 MiB.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>

#include "cuda/api/driver.hpp"
#include "runtime/streaming_copy.hpp"
#include "sluice/sluice.hpp"
#include "support/by_hand.hpp"
#include "support/timing.hpp"

using namespace sluice;
using bench::check;

int main() {
    runtime machine;
    device& gpu = machine.find("cuda:0");
    single_stream pool(gpu);
    const auto stream = bench::make_stream();
    const auto driver = cuda::api::driver_function<decltype(&cuMemcpyHtoDAsync)>("cuMemcpyHtoDAsync");
    for (const std::size_t kib : {4, 16, 32, 64, 128, 256, 384, 512, 768, 1024, 1536, 2048}) {
        const std::size_t bytes = kib << 10, size = bytes / 4;
        std::vector<unsigned> values(size, 7);
        const auto there = bench::make_device<unsigned>(size);
        const auto pinned = bench::make_pinned<unsigned>(size);
        std::optional<device_future<tensor<unsigned>>> taken;
        const auto settle = [&] {
            if (taken) static_cast<void>(std::move(*taken).get());
            taken.reset();
            check(cudaDeviceSynchronize());
        };
        const auto by_driver = [&](const void* from) {
            if (driver(reinterpret_cast<CUdeviceptr>(there.get()), from, bytes, stream.get()) != CUDA_SUCCESS)
                throw std::runtime_error("cuMemcpyHtoDAsync");
        };
        const auto times = bench::medians(
            {[&] { check(cudaMemcpy(there.get(), values.data(), bytes, cudaMemcpyHostToDevice)); }, settle,
             [&] { by_driver(values.data()); }, settle,
             [&] {
                 detail::streaming_copy(pinned.get(), values.data(), bytes);
                 by_driver(pinned.get());
             },
             settle,
             [&] {
                 std::memcpy(pinned.get(), values.data(), bytes);
                 by_driver(pinned.get());
             },
             settle, [&] { taken.emplace(spawn(upload(std::span<const unsigned>(values), nullptr, {size}), pool)); },
             settle, [&] { sync(upload(std::span<const unsigned>(values), nullptr, {size}), pool); }, settle,
             [&] {
                 by_driver(values.data());
                 check(cudaStreamSynchronize(stream.get()));
             },
             settle},
            300, 10);
        std::printf(
            "%5zu KiB: cudaMemcpy %.2f, HtoDAsync %.2f, streaming copy and HtoDAsync %.2f, memcpy and HtoDAsync "
            "%.2f, ours taken %.2f, ours arrived %.2f, HtoDAsync and wait %.2f us\n",
            kib, times[0], times[2], times[4], times[6], times[8], times[10], times[12]);
    }
}

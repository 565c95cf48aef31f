// SPDX-License-Identifier: Apache-2.0
// Throughput of large data through a GPU.
//
// Streaming: 8 GiB from pinned host memory to the device, through a small kernel, and back to pinned host memory, in
// chunks of 32 MiB on four streams. Ours, by hand, and the bare copies in both directions at once, without a kernel.
//
// Uploads from pageable memory, by size: ours, cudaMemcpy from that memory, and cudaMemcpy from pinned memory.
#include <cstring>
#include <deque>
#include <span>
#include <string>

#include "sluice/sluice.hpp"
#include "support/by_hand.hpp"
#include "support/result.hpp"
#include "support/timing.hpp"

using namespace sluice;
using bench::check;

namespace {

using word = unsigned;

constexpr std::size_t mebibyte = std::size_t{1} << 20;
constexpr std::size_t chunk_bytes = 32 * mebibyte;
constexpr std::size_t chunk_words = chunk_bytes / sizeof(word);
constexpr std::size_t lanes = 4;
// The stream passes repeatedly through this much host memory on either side.
constexpr std::size_t resident_chunks = 32;
constexpr std::size_t total_chunks = 256;
// Three chunks per stream: while one is waited for, the others keep both copy engines busy. Fewer than the resident
// chunks, so that no two chunks in flight share their host memory.
constexpr std::size_t window = 3 * lanes;
static_assert(window < resident_chunks && total_chunks % resident_chunks == 0);

__global__ void add_one_by_hand(word* x, std::size_t size) {
    const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (i < size) x[i] += 1;
}

struct add_one {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<word> x) const {
        if (word* const element = x.at(at)) *element += 1;
    }
};

double gigabytes_per_second(std::size_t bytes, double microseconds) {
    return static_cast<double>(bytes) / microseconds / 1e3;
}

class pinned_data {
public:
    explicit pinned_data(stream user)
        : from_(std::make_shared<host_buffer<word>>(user, resident_chunks * chunk_words)),
          to_(std::make_shared<host_buffer<word>>(user, resident_chunks * chunk_words)) {
        word value = 0;
        for (word& each : from_->write()) each = value++ * 2654435761u;
        clear();
    }

    std::span<const word> from(std::size_t chunk) const { return part_of(*from_, chunk); }
    std::span<word> to(std::size_t chunk) const { return part_of(*to_, chunk); }
    const std::shared_ptr<host_buffer<word>>& from_owner() const { return from_; }
    const std::shared_ptr<host_buffer<word>>& to_owner() const { return to_; }

    void clear() { std::memset(to_->device_data(), 0, to_->size_bytes()); }
    void verify(const char* version) const {
        const word* const from = from_->device_data();
        const word* const to = to_->device_data();
        for (std::size_t i = 0; i < from_->size(); ++i) {
            if (to[i] != from[i] + 1) throw std::runtime_error(std::string("wrong contents: ") + version);
        }
    }

private:
    static std::span<word> part_of(host_buffer<word>& whole, std::size_t chunk) {
        return {whole.device_data() + chunk % resident_chunks * chunk_words, chunk_words};
    }

    std::shared_ptr<host_buffer<word>> from_;
    std::shared_ptr<host_buffer<word>> to_;
};

void stream_ours(const pinned_data& data, scheduling_policy& pool) {
    std::deque<device_future<pending<owned_span<word>>>> running;
    for (std::size_t chunk = 0; chunk < total_chunks; ++chunk) {
        if (running.size() == window) {
            std::move(running.front()).get();
            running.pop_front();
        }
        running.push_back(
            spawn(upload(data.from(chunk), data.from_owner(), {chunk_words})
                      .and_then([](tensor<word> x) { return launch(add_one{}, each_of(x), std::move(x)); })
                      .and_then(download_to(data.to(chunk), data.to_owner())),
                  pool));
    }
    for (auto& each : running) std::move(each).get();
}

class streaming_by_hand {
public:
    streaming_by_hand() {
        for (std::size_t i = 0; i < lanes; ++i) {
            streams_.push_back(bench::make_stream());
            buffers_.push_back(bench::make_device<word>(chunk_words));
        }
    }

    void run(const pinned_data& data) {
        for (std::size_t chunk = 0; chunk < total_chunks; ++chunk) {
            word* const x = buffers_[chunk % lanes].get();
            const cudaStream_t on = streams_[chunk % lanes].get();
            check(cudaMemcpyAsync(x, data.from(chunk).data(), chunk_bytes, cudaMemcpyHostToDevice, on));
            add_one_by_hand<<<chunk_words / 256, 256, 0, on>>>(x, chunk_words);
            check(cudaMemcpyAsync(data.to(chunk).data(), x, chunk_bytes, cudaMemcpyDeviceToHost, on));
        }
        check(cudaGetLastError());
        synchronize();
    }

    // Only the copies, as many bytes in both directions at the same time.
    void run_bare_copies(const pinned_data& data) {
        for (std::size_t chunk = 0; chunk < total_chunks; ++chunk) {
            check(cudaMemcpyAsync(buffers_[0].get(), data.from(chunk).data(), chunk_bytes, cudaMemcpyHostToDevice,
                                  streams_[0].get()));
            check(cudaMemcpyAsync(data.to(chunk).data(), buffers_[1].get(), chunk_bytes, cudaMemcpyDeviceToHost,
                                  streams_[1].get()));
        }
        synchronize();
    }

private:
    void synchronize() {
        for (const auto& each : streams_) check(cudaStreamSynchronize(each.get()));
    }

    std::vector<bench::stream_by_hand> streams_;
    std::vector<bench::device_array<word>> buffers_;
};

void run_streaming(device& gpu) {
    round_robin pool(gpu, lanes);
    pinned_data data(pool.next());
    streaming_by_hand by_hand;

    stream_ours(data, pool);
    data.verify("ours");
    data.clear();
    by_hand.run(data);
    data.verify("by hand");

    const auto times = bench::medians(
        {[&] { stream_ours(data, pool); }, [&] { by_hand.run(data); }, [&] { by_hand.run_bare_copies(data); }}, 7, 1);
    constexpr std::size_t bytes = total_chunks * chunk_bytes;
    const double ours = gigabytes_per_second(bytes, times[0]);
    const double hand = gigabytes_per_second(bytes, times[1]);
    const double two_way = gigabytes_per_second(bytes, times[2]);
    const std::string name = gpu.properties().name;
    const std::string axes = "{\"gib\": 8, \"chunk_mib\": 32, \"streams\": 4, \"baseline\": ";
    bench::print({"streaming", axes + "\"by hand\"}", ours, "GB/s each way", hand, name});
    bench::print({"streaming", axes + "\"two-way copy\"}", ours, "GB/s each way", two_way, name});
    bench::print({"streaming_by_hand", axes + "\"two-way copy\"}", hand, "GB/s each way", two_way, name});
}

// Two measurements: "arrived", the data is on the device; "taken", the source may be changed, which is what cudaMemcpy
// guarantees for pageable memory (it returns before the last of the data has arrived).
void run_pageable(device& gpu, std::size_t kibibytes) {
    single_stream pool(gpu);
    const std::string name = gpu.properties().name;
    const std::size_t bytes = kibibytes << 10;
    const std::size_t size = bytes / sizeof(word);
    std::vector<word> values(size);
    for (std::size_t i = 0; i < size; ++i) values[i] = static_cast<word>(i * 2654435761u);
    const auto pinned = bench::make_pinned<word>(size);
    std::memcpy(pinned.get(), values.data(), bytes);
    const auto there = bench::make_device<word>(size);
    const auto stream = bench::make_stream();

    const auto upload_all = [&] { return upload(std::span<const word>(values), nullptr, {size}); };
    if (sync(download(sync(upload_all(), pool)), pool) != values)
        throw std::runtime_error("wrong contents: a pageable upload");
    std::optional<device_future<tensor<word>>> taken;
    const auto settle = [&] {
        if (taken) static_cast<void>(std::move(*taken).get());
        taken.reset();
        check(cudaDeviceSynchronize());
    };
    const auto by_driver = [&](const word* from) {
        check(cudaMemcpy(there.get(), from, bytes, cudaMemcpyHostToDevice));
    };
    const auto times = bench::medians(
        {[&] { sync(upload_all(), pool); }, [&] { by_driver(values.data()); }, settle, [&] { by_driver(pinned.get()); },
         [&] {
             check(cudaMemcpyAsync(there.get(), values.data(), bytes, cudaMemcpyHostToDevice, stream.get()));
             check(cudaStreamSynchronize(stream.get()));
         },
         [&] { taken.emplace(spawn(upload_all(), pool)); }, settle},
        kibibytes > (100 << 10) ? 9 : 60, 5);
    const auto print = [&](const char* form, double ours, const char* baseline, double theirs) {
        const std::string axes = "{\"kib\": " + std::to_string(kibibytes) + ", \"form\": \"" + form +
                                 "\", \"baseline\": \"" + baseline + "\"}";
        bench::print({"pageable_upload", axes, gigabytes_per_second(bytes, ours), "GB/s",
                      gigabytes_per_second(bytes, theirs), name});
    };
    print("arrived", times[0], "cudaMemcpy, pageable", times[1]);
    print("arrived", times[0], "cudaMemcpy, pinned", times[3]);
    print("arrived", times[0], "cudaMemcpyAsync and a wait, pageable", times[4]);
    print("taken", times[5], "cudaMemcpy, pageable", times[1]);
}

void run() {
    runtime machine;
    device& gpu = machine.find("cuda:0");
    for (const std::size_t kibibytes :
         {4, 16, 64, 128, 256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 16384, 65536, 262144, 1048576})
        run_pageable(gpu, kibibytes);
    gpu.trim();
    run_streaming(gpu);
}

}  // namespace

int main() try { run(); } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}

// SPDX-License-Identifier: Apache-2.0
// Copies a gigabyte of weights to all GPUs: by copies from one to the next, and by a collective, compared with NCCL's
// broadcast by hand.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "cuda/api/nccl.hpp"
#include "sluice/sluice.hpp"
#include "support/by_hand.hpp"
#include "support/result.hpp"
#include "support/timing.hpp"

namespace sluice::bench {
namespace {

constexpr std::size_t elements = std::size_t{1} << 28;  // floats: 1 GiB

// One communicator, stream and block of memory for each GPU.
class by_hand {
public:
    explicit by_hand(int gpus) : communicators_(gpus), streams_(gpus), memory_(gpus) {
        const auto& nccl = cuda::api::nccl_functions::get();
        cuda::api::check_nccl(nccl.make_all(communicators_.data(), gpus, nullptr), "ncclCommInitAll");
        for (int i = 0; i < gpus; ++i) {
            check(cudaSetDevice(i));
            check(cudaStreamCreateWithFlags(&streams_[i], cudaStreamNonBlocking));
            check(cudaMalloc(&memory_[i], elements * sizeof(float)));
        }
    }
    by_hand(const by_hand&) = delete;  // it owns handles
    by_hand& operator=(const by_hand&) = delete;
    ~by_hand() {
        for (std::size_t i = 0; i < streams_.size(); ++i) {
            static_cast<void>(cudaSetDevice(static_cast<int>(i)));
            static_cast<void>(cuda::api::nccl_functions::get().abort(communicators_[i]));
            static_cast<void>(cudaFree(memory_[i]));
            static_cast<void>(cudaStreamDestroy(streams_[i]));
        }
        static_cast<void>(cudaSetDevice(0));
    }

    void run() {
        const auto& nccl = cuda::api::nccl_functions::get();
        cuda::api::check_nccl(nccl.begin_group(), "ncclGroupStart");
        for (std::size_t i = 0; i < streams_.size(); ++i) {
            cuda::api::check_nccl(
                nccl.broadcast(memory_[i], memory_[i], elements, ncclFloat32, 0, communicators_[i], streams_[i]),
                "ncclBroadcast");
        }
        cuda::api::check_nccl(nccl.end_group(), "ncclGroupEnd");
        for (cudaStream_t const each : streams_) check(cudaStreamSynchronize(each));
    }

private:
    std::vector<ncclComm_t> communicators_;
    std::vector<cudaStream_t> streams_;
    std::vector<void*> memory_;
};

void run() {
    runtime machine;
    const device_set all = device_set::of(machine, "cuda");
    if (all.size() < 2) return;
    round_robin_devices pool(all, 2);
    const shared_tensor<float> weights(sync(on_device(all[0], zeros<float>({elements})), pool));
    const communicator among(all);
    by_hand hand(static_cast<int>(all.size()));
    const auto times = medians({[&] { static_cast<void>(sync(replicate(all, weights), pool)); },
                                [&] { static_cast<void>(sync(broadcast(among, weights), pool)); }, [&] { hand.run(); }},
                               20, 3);
    const std::string axes = "\"bytes\": 1073741824, \"devices\": " + std::to_string(all.size()) + "}";
    const std::string name = all[0].properties().name;
    print({"replicate", "{\"by\": \"copies\", " + axes, times[0], "us", times[2], name});
    print({"replicate", "{\"by\": \"broadcast\", " + axes, times[1], "us", times[2], name});
}

}  // namespace
}  // namespace sluice::bench

int main() try { sluice::bench::run(); } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}

// SPDX-License-Identifier: Apache-2.0
// One row through a layer of 4096 x 4096 in bf16: ours compared with cuBLASLt (best of its proposals). The weights are
// used alternately from sixteen copies, 512 MiB, so that the L2 cache cannot hold them. Results are checked before
// timing.
#include <cmath>
#include <cstdio>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "sluice/kernels/matvec.hpp"
#include "sluice/sluice.hpp"
#include "support/by_hand.hpp"
#include "support/device_timing.hpp"
#include "support/matmul_by_hand.hpp"
#include "support/result.hpp"

namespace sluice::bench {
namespace {

constexpr std::size_t width = 4096;
constexpr std::size_t copies = 16;

std::vector<bfloat16> random_values(std::size_t size, unsigned seed) {
    std::mt19937 generator(seed);
    std::uniform_real_distribution<float> any(-1, 1);
    std::vector<bfloat16> made;
    made.reserve(size);
    for (std::size_t i = 0; i < size; ++i) made.push_back(bfloat16(any(generator)));
    return made;
}

double difference(const std::vector<bfloat16>& a, const std::vector<bfloat16>& b) {
    double distance = 0, norm = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        distance += std::pow(float{a[i]} - float{b[i]}, 2);
        norm += std::pow(float{b[i]}, 2);
    }
    return std::sqrt(distance / norm);
}

void compare(device& gpu, std::size_t rows, const std::vector<tensor<bfloat16>>& weights) {
    single_stream policy(gpu);
    stream home = policy.next();
    const auto on = static_cast<cudaStream_t>(home.native().handle);
    const auto x = sync(upload(random_values(rows * width, 1), {rows, width}), policy);
    auto ours = sync(zeros<bfloat16>({rows, width}), policy), theirs = sync(zeros<bfloat16>({rows, width}), policy);
    matmul_by_hand library(CUDA_R_16BF, rows, width, width, nullptr, false);
    library.choose(x.device_data(), weights[0].device_data(), theirs.device_data(), on);
    matvec(home, x, weights[0], nullptr, ours);
    library.run(x.device_data(), weights[0].device_data(), theirs.device_data(), on);
    check(cudaStreamSynchronize(on));
    std::vector<bfloat16> got(rows * width), expected(rows * width);
    check(cudaMemcpy(got.data(), ours.device_data(), ours.size_bytes(), cudaMemcpyDeviceToHost));
    check(cudaMemcpy(expected.data(), theirs.device_data(), theirs.size_bytes(), cudaMemcpyDeviceToHost));
    if (!(difference(got, expected) < 1e-2)) throw std::runtime_error("the versions do not agree");

    std::size_t next = 0;
    const auto turn = [&]() -> const tensor<bfloat16>& { return weights[next++ % copies]; };
    const auto each_copy = [](const std::function<void()>& call) {
        return [=] {
            for (std::size_t i = 0; i < copies; ++i) call();
        };
    };
    const auto times =
        device_medians(on, {each_copy([&] { matvec(home, x, turn(), nullptr, ours); }), each_copy([&] {
                                library.run(x.device_data(), turn().device_data(), theirs.device_data(), on);
                            })},
                       4);
    const double bytes = static_cast<double>(width * width * sizeof(bfloat16));
    print({"matvec",
           "{\"rows\": " + std::to_string(rows) +
               ", \"in\": 4096, \"out\": 4096, \"type\": \"bf16\", \"baseline\": \"cuBLASLt\"}",
           bytes * copies / times[0] / 1e3, "GB/s", bytes * copies / times[1] / 1e3, gpu.properties().name});
}

}  // namespace

void compare_all() {
    runtime machine;
    device& gpu = machine.find("cuda:0");
    single_stream policy(gpu);
    std::vector<tensor<bfloat16>> weights;
    const auto values = random_values(width * width, 2);
    for (std::size_t i = 0; i < copies; ++i) weights.push_back(sync(upload(values, {width, width}), policy));
    for (const std::size_t rows : {1, 2, 4, 8}) compare(gpu, rows, weights);
}

}  // namespace sluice::bench

int main() try { sluice::bench::compare_all(); } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}

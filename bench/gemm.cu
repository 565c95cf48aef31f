// SPDX-License-Identifier: Apache-2.0
// Matrix products in bf16: ours and cuBLASLt's. First, some shapes with every available algorithm; then, for sixty
// shapes, the algorithm that gemm chooses after tuning, compared with cuBLASLt's first proposal. The results of all
// algorithms are compared before timing. Times are of one call inside a graph, with the versions timed alternately.
//
//     bench_gemm [ROWSxCOLUMNSxINNER ...]     with shapes: every algorithm for each, b transposed, and nothing else
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <span>
#include <sstream>
#include <string>

#include "kernels/gemm/gemm_dispatch.hpp"
#include "sluice/kernels/cast.hpp"
#include "sluice/kernels/gemm_tuning.hpp"
#include "sluice/kernels/random.hpp"
#include "sluice/sluice.hpp"
#include "support/by_hand.hpp"
#include "support/device_timing.hpp"
#include "support/result.hpp"

namespace sluice::bench {
namespace {

using kernels::gemm_algorithm;

// Adds up the squares of the differences, and the squares of y.
__global__ void add_differences(const bfloat16* x, const bfloat16* y, std::size_t size, double* sums) {
    double distance = 0, norm = 0;
    for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < size; i += gridDim.x * blockDim.x) {
        const double other = float{y[i]}, off = float{x[i]} - other;
        distance += off * off;
        norm += other * other;
    }
    atomicAdd(sums, distance);
    atomicAdd(sums + 1, norm);
}

// One problem's operands, and its product by any algorithm.
class product {
public:
    product(device& gpu, single_stream& policy, const gemm_problem& of)
        : gpu_(gpu),
          home_(policy.next()),
          a_(random(policy, {of.rows, of.inner}, 1)),
          b_(random(policy, {of.inner, of.columns}, 2)),
          out_(home_, {of.rows, of.columns}),
          workspace_(home_.workspace(kernels::gemm_on_cuda_workspace_bytes())),
          call_{a_.device_data(),
                b_.device_data(),
                nullptr,
                out_.device_data(),
                workspace_->data(),
                of,
                activation::none,
                {}} {
        check(cudaStreamSynchronize(native()));
    }

    cudaStream_t native() const { return static_cast<cudaStream_t>(home_.native().handle); }
    const kernels::gemm_call& call() const { return call_; }
    std::vector<gemm_algorithm> ways() const { return kernels::gemm_algorithms_for(gpu_, call_); }

    void run(const gemm_algorithm& way) const {
        kernels::gemm_call with = call_;
        with.way = way;
        kernels::gemm_on_cuda(with, home_.native());
    }
    // The difference between the products of two algorithms, relative in the Euclidean norm.
    double difference(const gemm_algorithm& one, const gemm_algorithm& other) const {
        const auto kept = make_device<bfloat16>(out_.size());
        const auto sums = make_device<double>(2);
        check(cudaMemsetAsync(sums.get(), 0, 2 * sizeof(double), native()));
        check(cudaMemsetAsync(call_.out, 0xff, out_.size_bytes(), native()));
        run(other);
        check(cudaMemcpyAsync(kept.get(), call_.out, out_.size_bytes(), cudaMemcpyDeviceToDevice, native()));
        check(cudaMemsetAsync(call_.out, 0xff, out_.size_bytes(), native()));
        run(one);
        add_differences<<<512, 256, 0, native()>>>(static_cast<const bfloat16*>(call_.out), kept.get(), out_.size(),
                                                   sums.get());
        double got[2];
        check(cudaMemcpyAsync(got, sums.get(), sizeof(got), cudaMemcpyDeviceToHost, native()));
        check(cudaStreamSynchronize(native()));
        return std::sqrt(got[0] / got[1]);
    }
    // Microseconds per call for each algorithm, timed alternately. Large products are timed long enough for the clocks
    // to settle.
    std::vector<double> times(const std::vector<gemm_algorithm>& ways) const {
        run(ways.front());
        const double once = device_medians(native(), {[&] { run(ways.front()); }}, 2, 3).front();
        const int calls = std::clamp(static_cast<int>(400 / once), 1, 32);
        const double turn = once > 80 ? 6000 : 1000;
        const int launches = std::clamp(static_cast<int>(turn / (once * calls)), 1, 100);
        std::vector<graph_by_hand> graphs;
        std::vector<std::function<void()>> versions;
        for (const gemm_algorithm& way : ways) graphs.push_back(graph_of(native(), [&] { run(way); }, calls));
        for (const auto& graph : graphs) {
            versions.push_back([&graph, launches, this] {
                for (int i = 0; i < launches; ++i) check(cudaGraphLaunch(graph.get(), native()));
            });
        }
        // In each of 7 rounds: two timed runs after one to warm up.
        std::vector<double> made = device_medians(native(), versions, 2, 7);
        for (double& each : made) each /= calls * launches;
        return made;
    }

private:
    static tensor<bfloat16> random(single_stream& policy, const shape& of, std::uint64_t seed) {
        auto floats = sync(randn(of, seed), policy);
        return sync(cast<bfloat16>(std::move(floats)), policy);
    }

    device& gpu_;
    stream home_;
    tensor<bfloat16> a_, b_, out_;
    storage_ref workspace_;
    kernels::gemm_call call_;
};

void expect_agreement(const product& of, const std::vector<gemm_algorithm>& ways) {
    for (const gemm_algorithm& way : ways) {
        const double off = of.difference(way, ways.front());
        if (off < 5e-3) continue;  // and not NaN
        throw std::runtime_error(to_string(way) + " disagrees by " + std::to_string(off));
    }
}

std::string axes(const gemm_problem& of) {
    return "{\"rows\": " + std::to_string(of.rows) + ", \"columns\": " + std::to_string(of.columns) +
           ", \"inner\": " + std::to_string(of.inner) + ", \"type\": \"" + std::string(to_string(of.type)) +
           "\", \"transpose_b\": " + (of.b_is_transposed ? "true" : "false");
}

std::string with_way(const gemm_problem& of, const std::string& way, const std::string& baseline) {
    return axes(of) + ", \"way\": \"" + way + "\", \"baseline\": \"" + baseline + "\"}";
}

// Every algorithm, compared with cuBLASLt's first proposal.
void run_all_algorithms(device& gpu, single_stream& policy, const gemm_problem& of) {
    const product all(gpu, policy, of);
    const auto ways = all.ways();
    expect_agreement(all, ways);
    const auto times = all.times(ways);
    const double operations = 2e-6 * static_cast<double>(of.rows * of.columns) * static_cast<double>(of.inner);
    for (std::size_t i = 0; i < ways.size(); ++i) {
        print({"gemm_variant", with_way(of, to_string(ways[i]), "cuBLASLt 0"), operations / times[i], "TFLOP/s",
               operations / times[0], gpu.properties().name});
    }
}

// Returns the chosen algorithm's time divided by that of cuBLASLt's first proposal.
double run_chosen(device& gpu, single_stream& policy, const gemm_problem& of) {
    const product all(gpu, policy, of);
    const gemm_algorithm chosen = kernels::choose_gemm_algorithm(gpu, all.call());
    expect_agreement(all, {{}, chosen});
    // If the first proposal is the chosen algorithm, there is nothing to compare.
    const auto times =
        chosen == gemm_algorithm{} ? std::vector<double>(2, all.times({chosen}).front()) : all.times({{}, chosen});
    print({"gemm_chosen", with_way(of, to_string(chosen), "cuBLASLt 0"), times[1], "us", times[0],
           gpu.properties().name});
    return times[1] / times[0];
}

gemm_problem problem_of(const std::string& text) {
    gemm_problem made{gemm_type::bf16, true, 0, 0, 0};
    std::istringstream from(text);
    char between = 0;
    if (!(from >> made.rows >> between >> made.columns >> between >> made.inner) || from.peek() != EOF)
        throw std::runtime_error("not ROWSxCOLUMNSxINNER: " + text);
    return made;
}

void run_all(std::span<char* const> shapes) {
    runtime machine;
    device& gpu = machine.find("cuda:0");
    single_stream policy(gpu);
    if (!shapes.empty()) {
        for (const char* const each : shapes) run_all_algorithms(gpu, policy, problem_of(each));
        return;
    }
    for (const bool transposed : {true, false}) {
        run_all_algorithms(gpu, policy, {gemm_type::bf16, transposed, 4096, 4096, 4096});
    }
    run_all_algorithms(gpu, policy, {gemm_type::bf16, true, 1024, 1024, 1024});
    run_all_algorithms(gpu, policy, {gemm_type::bf16, true, 64, 4096, 4096});

    const auto problems = usual_gemm_problems();
    const auto file = std::filesystem::temp_directory_path() / "bench_gemm_table.txt";
    static_cast<void>(tune_gemm(gpu, problems, file));
    double worst = 0;
    int slower = 0;
    for (const gemm_problem& each : problems) {
        const double ratio = run_chosen(gpu, policy, each);
        worst = std::max(worst, ratio);
        if (ratio > 1.03) ++slower;
    }
    std::fprintf(stderr, "%zu shapes: worst ratio %.3f, more than 3 %% slower: %d\n", problems.size(), worst, slower);
}

}  // namespace

void run_gemm(std::span<char* const> shapes) { run_all(shapes); }
}  // namespace sluice::bench

int main(int count, char** words) try {
    sluice::bench::run_gemm(std::span(words, static_cast<std::size_t>(count)).subspan(1));
} catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}

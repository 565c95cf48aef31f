// SPDX-License-Identifier: Apache-2.0
// Convolutions in f32: ours by cuDNN (only algorithms that keep windows apart) and by im2col and gemm, compared with
// the fastest of all cuDNN algorithms, called by hand. Results are checked before timing.
#include <array>
#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "cuda/api/cudnn.hpp"
#include "cuda/api/handles.hpp"
#include "sluice/cuda/device_context.hpp"
#include "sluice/kernels/convolution.hpp"
#include "sluice/sluice.hpp"
#include "support/by_hand.hpp"
#include "support/device_timing.hpp"
#include "support/result.hpp"

namespace sluice::bench {
namespace {

struct convolution_size {
    std::size_t images, channels, side, filters, window, groups;
};
// The digits network; a residual network, with its first layer of 7 x 7; a depthwise convolution.
constexpr convolution_size all_sizes[] = {{64, 1, 8, 16, 3, 1},     {32, 64, 56, 64, 3, 1},
                                          {32, 256, 14, 256, 3, 1}, {32, 256, 14, 1024, 1, 1},
                                          {8, 3, 224, 64, 7, 1},    {32, 128, 28, 128, 3, 128}};

void check_dnn(cudnnStatus_t status) { cuda::api::check_cudnn(status, "cuDNN"); }

// Stride 1 and "same" padding. The descriptors are never destroyed.
class convolution_by_hand {
public:
    convolution_by_hand(const convolution_size& size, cudnnHandle_t handle) : handle_(handle) {
        const auto count = [](std::size_t value) { return static_cast<int>(value); };
        const int side = count(size.side), padding = count(size.window / 2);
        check_dnn(dnn().create_tensor(&x_));
        check_dnn(dnn().set_tensor(x_, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, count(size.images), count(size.channels),
                                   side, side));
        check_dnn(dnn().create_filter(&filter_));
        check_dnn(dnn().set_filter(filter_, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, count(size.filters),
                                   count(size.channels / size.groups), count(size.window), count(size.window)));
        check_dnn(dnn().create_convolution(&convolution_));
        check_dnn(dnn().set_convolution(convolution_, padding, padding, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION,
                                        CUDNN_DATA_FLOAT));
        check_dnn(dnn().set_groups(convolution_, count(size.groups)));
        check_dnn(dnn().set_math(convolution_, CUDNN_FMA_MATH));
        check_dnn(dnn().create_tensor(&out_));
        check_dnn(dnn().set_tensor(out_, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, count(size.images), count(size.filters),
                                   side, side));
    }

    // Times every algorithm that runs, and keeps the fastest.
    void choose(const float* x, const float* filter, float* out, cudaStream_t on) {
        double best = 1e30;
        int fastest = 0;
        for (int each = 0; each < CUDNN_CONVOLUTION_FWD_ALGO_COUNT; ++each) {
            algorithm_ = static_cast<cudnnConvolutionFwdAlgo_t>(each);
            std::size_t bytes = 0;
            const auto status = dnn().workspace_size(handle_, x_, filter_, convolution_, out_, algorithm_, &bytes);
            if (status != CUDNN_STATUS_SUCCESS || bytes > workspace_bytes) continue;
            if (try_once(x, filter, out) != CUDNN_STATUS_SUCCESS) continue;
            const double time = device_medians(on, {[&] { run(x, filter, out); }}, 5, 3).front();
            if (time < best) {
                best = time;
                fastest = each;
            }
        }
        algorithm_ = static_cast<cudnnConvolutionFwdAlgo_t>(fastest);
    }
    int algorithm() const { return algorithm_; }

    void run(const float* x, const float* filter, float* out) { check_dnn(try_once(x, filter, out)); }

private:
    static constexpr std::size_t workspace_bytes = std::size_t{512} << 20;
    static const cuda::api::cudnn_functions& dnn() { return cuda::api::cudnn_functions::get(); }

    cudnnStatus_t try_once(const float* x, const float* filter, float* out) {
        const float one = 1, zero = 0;
        return dnn().convolve(handle_, &one, x_, x, filter_, filter, convolution_, algorithm_, workspace_.get(),
                              workspace_bytes, &zero, out_, out);
    }

    cudnnHandle_t handle_;
    device_array<unsigned char> workspace_ = make_device<unsigned char>(workspace_bytes);
    cudnnTensorDescriptor_t x_ = nullptr, out_ = nullptr;
    cudnnFilterDescriptor_t filter_ = nullptr;
    cudnnConvolutionDescriptor_t convolution_ = nullptr;
    cudnnConvolutionFwdAlgo_t algorithm_{};
};

std::vector<float> random_values(std::size_t size, unsigned seed) {
    std::mt19937 generator(seed);
    std::uniform_real_distribution<float> any(-1, 1);
    std::vector<float> made(size);
    for (float& each : made) each = any(generator);
    return made;
}

double difference(const std::vector<float>& a, const std::vector<float>& b) {
    double distance = 0, norm = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        const double off = double{a[i]} - double{b[i]};
        distance += off * off;
        norm += double{b[i]} * double{b[i]};
    }
    return std::sqrt(distance / norm);
}

void compare(device& gpu, const convolution_size& size) {
    single_stream policy(gpu);
    stream home = policy.next();
    const auto on = static_cast<cudaStream_t>(home.native().handle);
    const shape images{size.images, size.channels, size.side, size.side};
    const shape filters{size.filters, size.channels / size.groups, size.window, size.window};
    const auto x = sync(upload(random_values(images.size(), 1), images), policy);
    const auto filter = sync(upload(random_values(filters.size(), 2), filters), policy);
    std::array<convolution_options, 2> forms;
    for (convolution_options& each : forms) {
        each.padding = {size.window / 2, size.window / 2};
        each.groups = size.groups;
    }
    forms[1].use_library = false;
    const shape made = convolved(images, filters, forms[0]);
    auto ours = sync(zeros<float>(made), policy), theirs = sync(zeros<float>(made), policy);

    convolution_by_hand library(size, cuda::device_context::of(gpu).cudnn(home));
    library.choose(x.device_data(), filter.device_data(), theirs.device_data(), on);
    const auto by_hand = [&] { library.run(x.device_data(), filter.device_data(), theirs.device_data()); };
    by_hand();
    std::vector<float> got(made.size()), expected(made.size());
    check(cudaStreamSynchronize(on));
    check(cudaMemcpy(expected.data(), theirs.device_data(), theirs.size_bytes(), cudaMemcpyDeviceToHost));
    for (const convolution_options& each : forms) {
        convolution(home, x, filter, nullptr, ours, each);
        check(cudaStreamSynchronize(on));
        check(cudaMemcpy(got.data(), ours.device_data(), ours.size_bytes(), cudaMemcpyDeviceToHost));
        if (!(difference(got, expected) < 1e-4)) throw std::runtime_error("the versions do not agree");
    }

    const auto times = device_medians(on,
                                      {[&] { convolution(home, x, filter, nullptr, ours, forms[0]); },
                                       [&] { convolution(home, x, filter, nullptr, ours, forms[1]); }, by_hand},
                                      10);
    for (const std::size_t i : {0, 1}) {
        print({"convolution",
               "{\"x\": \"" + to_string(images) + "\", \"filter\": \"" + to_string(filters) +
                   "\", \"groups\": " + std::to_string(size.groups) + ", \"by\": \"" + (i == 0 ? "cuDNN" : "im2col") +
                   "\", \"workspace_bytes\": " +
                   std::to_string(convolution_workspace_bytes(gpu, images, filters, forms[i])) +
                   ", \"baseline\": \"cuDNN by hand, its algorithm " + std::to_string(library.algorithm()) + "\"}",
               times[i], "us", times[2], gpu.properties().name});
    }
}

}  // namespace

void compare_all() {
    runtime machine;
    for (const convolution_size& each : all_sizes) compare(machine.find("cuda:0"), each);
}

}  // namespace sluice::bench

int main() try { sluice::bench::compare_all(); } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}

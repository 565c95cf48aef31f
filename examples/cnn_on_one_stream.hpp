// SPDX-License-Identifier: Apache-2.0
// The pipeline of cnn_on_one_stream: a network of convolutions, batch after batch on one stream.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "sluice/kernels/convolution.hpp"
#include "sluice/kernels/gemm.hpp"
#include "sluice/kernels/pooling.hpp"
#include "sluice/sluice.hpp"

namespace cnn_on_one_stream {

using namespace sluice;

inline constexpr std::size_t side = 8;  // of an image, in pixels
inline constexpr std::size_t classes = 10;

// Two convolutions of 3 x 3, each followed by a pooling of 2 x 2, and a layer.
struct network {
    shared_tensor<float> filter_1;  // [filters, 1, 3, 3]
    shared_tensor<float> bias_1;
    shared_tensor<float> filter_2;  // [filters, filters of the first, 3, 3]
    shared_tensor<float> bias_2;
    shared_tensor<float> weight;  // [classes, filters of the second * 2 * 2]
    shared_tensor<float> bias;
};

inline const convolution_options same_size{.padding = {1, 1}, .after = activation::relu};

// Every step is a command on the same stream and so comes after the previous step; no other ordering is needed. The
// memory that a step has read is released after it, and the next batch reuses it.
inline auto classify(std::vector<float> images, const network& with) {
    const std::size_t count = images.size() / (side * side);
    return upload(std::move(images), {count, 1, side, side})
        .and_then([=](auto x) { return convolution(std::move(x), with.filter_1, with.bias_1, same_size); })
        .and_then(max_pooling())
        .and_then([=](auto x) { return convolution(std::move(x), with.filter_2, with.bias_2, same_size); })
        .and_then(max_pooling())
        .transform([=](auto x) { return std::move(x).reshape({count, x.size() / count}); })
        .and_then(linear(with.weight, with.bias))
        .and_then(download);
}

// The scores of all images, [count, classes], in batches. All batches are submitted before the first is waited for.
inline std::vector<float> scores_of(const std::vector<float>& images, std::size_t batch, const network& with,
                                    scheduling_policy& one_stream) {
    std::vector<device_future<pending<std::vector<float>>>> running;
    const std::size_t step = batch * side * side;
    for (std::size_t first = 0; first < images.size(); first += step) {
        const auto begin = images.begin() + static_cast<std::ptrdiff_t>(first);
        const auto size = static_cast<std::ptrdiff_t>(std::min(step, images.size() - first));
        running.push_back(spawn(classify(std::vector<float>(begin, begin + size), with), one_stream));
    }
    std::vector<float> scores;
    for (auto& each : running) {
        const std::vector<float> of_batch = std::move(each).get();
        scores.insert(scores.end(), of_batch.begin(), of_batch.end());
    }
    return scores;
}

inline std::size_t best_of(const float* scores) {
    return static_cast<std::size_t>(std::max_element(scores, scores + classes) - scores);
}

// How much of the stream's workspace each convolution uses, in bytes.
inline std::pair<std::size_t, std::size_t> workspace_use(std::size_t batch, const network& with, device& on) {
    const shape images{batch, 1, side, side};
    const shape pooled_once = pooled(convolved(images, with.filter_1->shape(), same_size));
    return {convolution_workspace_bytes(on, images, with.filter_1->shape(), same_size),
            convolution_workspace_bytes(on, pooled_once, with.filter_2->shape(), same_size)};
}

}  // namespace cnn_on_one_stream

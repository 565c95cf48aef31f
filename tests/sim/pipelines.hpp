// The network of examples/async_mlp, small.
#pragma once

#include <vector>

#include "sluice/sluice.hpp"

namespace sluice::sim {

inline constexpr std::size_t dim = 4;

struct sgemm_naive {
    SLUICE_KERNEL void operator()(index_2d at, float alpha, matrix_view<const float> a, matrix_view<const float> b,
                                  float beta, disjoint_matrix<float> c) const {
        if (float* element = c.at(at)) {
            float sum = 0;
            for (std::size_t k = 0; k < a.columns(); ++k) sum += a(at.row(), k) * b(k, at.column());
            *element = alpha * sum + beta * *element;
        }
    }
};

struct matvec_naive {
    SLUICE_KERNEL void operator()(index_1d at, matrix_view<const float> a, view<const float> x,
                                  disjoint_view<float> y) const {
        if (float* element = y.at(at)) {
            float sum = 0;
            for (std::size_t k = 0; k < a.columns(); ++k) sum += a(at.value(), k) * x[k];
            *element = sum;
        }
    }
};

struct relu {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<float> x) const {
        if (float* element = x.at(at)) *element = *element < 0 ? 0 : *element;
    }
};

inline std::vector<float> ramp(std::size_t size, float start = 0) {
    std::vector<float> values(size);
    for (std::size_t i = 0; i < size; ++i) values[i] = start + static_cast<float>(i % 13) * 0.25f - 1;
    return values;
}

// Seven commands: an upload, two fills, three launches and a download.
inline auto forward(std::vector<float> batch, shared_tensor<float> w0, shared_tensor<float> w1) {
    return zip(upload(std::move(batch), {dim, dim}), zeros<float>({dim, dim}), zeros<float>({dim}))
        .and_then([=](auto input, auto hidden, auto output) {
            return zip(launch(sgemm_naive{}, each_of(hidden), 1.f, std::move(input), w0, 0.f, std::move(hidden)),
                       value(std::move(output)));
        })
        .and_then([=](auto hidden, auto output) {
            return launch(matvec_naive{}, each_of(output), std::move(hidden), w1, std::move(output));
        })
        .and_then([](auto output) { return launch(relu{}, each_of(output), std::move(output)); })
        .and_then(download);
}

// Spawned one after the other, then got in that order.
inline std::vector<std::vector<float>> run_batches(scheduling_policy& pool, const shared_tensor<float>& w0,
                                                   const shared_tensor<float>& w1, std::size_t count) {
    std::vector<decltype(spawn(forward({}, w0, w1), pool))> running;
    running.reserve(count);
    for (std::size_t i = 0; i < count; ++i)
        running.push_back(spawn(forward(ramp(dim * dim, static_cast<float>(i)), w0, w1), pool));
    std::vector<std::vector<float>> results;
    results.reserve(count);
    for (auto& each : running) results.push_back(std::move(each).get());
    return results;
}

}  // namespace sluice::sim

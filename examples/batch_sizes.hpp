// SPDX-License-Identifier: Apache-2.0
// The pipeline of batch_sizes. A graph has fixed shapes, but requests come in all sizes. So there is one graph for each
// size class (1, 2, 4, 8 ... rows), compiled at first use, and a request is padded up to its class.
#pragma once

#include <bit>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sluice/graph/executable_graph.hpp"
#include "sluice/sluice.hpp"

namespace batch_sizes {

using namespace sluice;

inline constexpr std::size_t features = 4;

// scores[row] = dot product of x's row and the weights
struct score {
    SLUICE_KERNEL void operator()(index_1d at, matrix_view<const float> x, view<const float> weights,
                                  disjoint_view<float> scores) const {
        float* const element = scores.at(at);
        if (element == nullptr) return;
        float sum = 0;
        for (std::size_t k = 0; k < x.columns(); ++k) sum += x(at.value(), k) * weights[k];
        *element = sum;
    }
};

inline auto compile_for(std::size_t rows, const shared_tensor<float>& weights, device& on) {
    return compile(
        on,
        [=](tensor<float> x) {
            return uninitialized<float>({rows})
                .and_then([=, x = std::move(x)](auto scores) mutable {
                    const auto all = each_of(scores);
                    return launch(score{}, all, std::move(x), weights, std::move(scores));
                })
                .and_then(download);
        },
        host_input<float>({rows, features}));
}
using score_graph = decltype(compile_for(0, std::declval<const shared_tensor<float>&>(), std::declval<device&>()));

class graph_cache {
public:
    explicit graph_cache(shared_tensor<float> weights) : weights_(std::move(weights)) {}

    // The scores of the given rows, of which there may be any number.
    std::vector<float> scores_of(std::vector<float> rows, scheduling_policy& pool) {
        const std::size_t count = rows.size() / features;
        rows.resize(class_of(count) * features);  // with rows of zeros
        std::vector<float> scores = sync(graph_for(count)(std::move(rows)), pool);
        scores.resize(count);
        return scores;
    }
    static std::size_t class_of(std::size_t rows) { return std::bit_ceil(rows); }
    std::size_t size() const { return graphs_.size(); }

private:
    const score_graph& graph_for(std::size_t rows) {
        const std::size_t size_class = class_of(rows);
        const auto known = graphs_.find(size_class);
        if (known != graphs_.end()) return known->second;
        device& on = weights_->memory()->owner();
        return graphs_.emplace(size_class, compile_for(size_class, weights_, on)).first->second;
    }

    shared_tensor<float> weights_;
    std::map<std::size_t, score_graph> graphs_;
};

inline std::vector<std::string> answer_all(scheduling_policy& pool) {
    graph_cache graphs(shared_tensor<float>(sync(upload(std::vector<float>{1, 2, 3, 4}, {features}), pool)));
    std::vector<std::string> lines;
    for (const std::size_t rows : {3u, 1u, 8u, 4u, 5u, 1u, 2u}) {
        std::vector<float> request(rows * features);
        for (std::size_t i = 0; i < request.size(); ++i) request[i] = static_cast<float>(i % 5);
        std::string line =
            std::to_string(rows) + " rows, by the graph for " + std::to_string(graph_cache::class_of(rows)) + ":";
        for (const float each : graphs.scores_of(std::move(request), pool)) {
            char text[32];
            std::snprintf(text, sizeof(text), " %g", double(each));
            line += text;
        }
        lines.push_back(std::move(line));
    }
    lines.push_back(std::to_string(graphs.size()) + " graphs were compiled");
    return lines;
}

}  // namespace batch_sizes

// SPDX-License-Identifier: Apache-2.0
#include "serve/resident_model.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sluice/base/error.hpp"
#include "sluice/base/half.hpp"
#include "sluice/nn/to_layers.hpp"

namespace sluice::serve {
namespace {

constexpr int timed_runs = 20;
constexpr std::array<std::size_t, 4> timed_rows{1, 2, 4, 8};
// For fewer rows a kernel that rounds is not worth that so few requests are joined.
constexpr std::size_t least_rows = 4;

template <typename T>
class resident_model final : public loaded_model {
public:
    resident_model(std::shared_ptr<const loaded_model> network, device& on, const nn::model& from,
                   nn::precision precision, const nn::resident_options& options)
        : network_(std::move(network)), precision_(precision) {
        // The network has run before: while the kernel stays, its libraries could not be loaded.
        std::array<std::chrono::nanoseconds, timed_rows.size()> of_network{};
        const std::size_t width = nn::to_layers(from).front().in_features;
        for (std::size_t i = 0; i < timed_rows.size(); ++i)
            of_network[i] = best_time([&, input = zeros(width, timed_rows[i])] { network_->run({input}); });
        stays_.emplace(on, from, options);
        for (std::size_t i = 0; i < timed_rows.size() && timed_rows[i] <= options.rows; ++i) {
            const nn::any_tensor input = zeros(width, timed_rows[i]);
            if (best_time([&] { run_resident(input); }) < of_network[i]) most_rows_ = timed_rows[i];
        }
        if (!is_exact && most_rows_ < least_rows) most_rows_ = 0;
    }

    const std::vector<nn::value_info>& inputs() const noexcept override { return network_->inputs(); }
    const std::vector<nn::value_info>& outputs() const noexcept override { return network_->outputs(); }
    const nn::text_codes& texts() const noexcept override { return network_->texts(); }
    const nn::row_independence& rows() const noexcept override { return network_->rows(); }
    std::string platform() const override { return network_->platform(); }
    std::string device_name() const override { return network_->device_name(); }
    bool is_lost() const noexcept override { return network_->is_lost(); }
    bool prefers_few_sizes() const noexcept override { return network_->prefers_few_sizes(); }
    // The kernel rounds between layers, and the network does not: a row must not be computed by one of them alone and
    // by the other in company.
    std::size_t most_joined_rows() const noexcept override {
        return is_exact || most_rows_ == 0 ? network_->most_joined_rows() : most_rows_;
    }
    std::string how() const override {
        std::string text = network_->how();
        if (!text.empty()) text += "; ";
        if (has_failed_) return text + "its resident kernel no longer answers";
        if (most_rows_ == 0) return text + "it is resident, but the network was faster for each number of rows";
        return text + "up to " + std::to_string(most_rows_) + " rows by a resident kernel in " +
               std::string(nn::to_string(precision_));
    }

    std::vector<nn::any_tensor> run(std::vector<nn::any_tensor> inputs) const override {
        if (!is_for_resident(inputs)) return network_->run(std::move(inputs));
        try {
            return run_resident(inputs.front());
        } catch (const error& failure) {
            // The kernel answers no request any more. This one may be computed by the network.
            if (failure.code() != errc::timed_out) throw;
            has_failed_ = true;
            return network_->run(std::move(inputs));
        }
    }

private:
    static constexpr bool is_exact = std::same_as<T, float>;

    static nn::any_tensor zeros(std::size_t width, std::size_t rows) {
        return nn::any_tensor(std::vector<float>(rows * width), {rows, width});
    }

    template <typename Function>
    static std::chrono::nanoseconds best_time(const Function& what) {
        auto best = std::chrono::nanoseconds::max();
        for (int i = 0; i < timed_runs; ++i) {
            const auto begin = std::chrono::steady_clock::now();
            what();
            best = std::min<std::chrono::nanoseconds>(best, std::chrono::steady_clock::now() - begin);
        }
        return best;
    }

    // What does not fit the model is refused by the network.
    bool is_for_resident(const std::vector<nn::any_tensor>& inputs) const {
        if (has_failed_ || inputs.size() != 1 || inputs.front().type() != io::dtype::f32) return false;
        const auto& shape = inputs.front().shape();
        return shape.size() == 2 && shape[0] != 0 && shape[0] <= most_rows_ && shape[1] == stays_->in_features();
    }

    std::vector<nn::any_tensor> run_resident(const nn::any_tensor& input) const {
        const std::size_t rows = input.shape()[0], width = stays_->out_features();
        std::byte* to = nullptr;
        nn::any_tensor made = nn::any_tensor::make_on_host(io::dtype::f32, {rows, width}, to);
        const std::span<float> outputs(reinterpret_cast<float*>(to), rows * width);
        if constexpr (is_exact) {
            stays_->run(input.values<float>(), outputs);
        } else {
            const auto values = input.values<float>();
            std::vector<T> in(values.size()), out(outputs.size());
            std::ranges::transform(values, in.begin(), [](float each) { return T(each); });
            stays_->run(in, out);
            std::ranges::transform(out, outputs.begin(), [](T each) { return static_cast<float>(each); });
        }
        return {std::move(made)};
    }

    const std::shared_ptr<const loaded_model> network_;
    const nn::precision precision_;
    std::optional<nn::resident_network<T>> stays_;
    std::size_t most_rows_ = 0;  // that the kernel computes
    mutable std::atomic<bool> has_failed_{false};
};

}  // namespace

std::shared_ptr<const loaded_model> make_resident(std::shared_ptr<const loaded_model> network, device& on,
                                                  const nn::model& from, nn::precision precision,
                                                  const nn::resident_options& options) {
    switch (precision) {
        case nn::precision::f32:
            return std::make_shared<resident_model<float>>(std::move(network), on, from, precision, options);
        case nn::precision::f16:
            return std::make_shared<resident_model<half>>(std::move(network), on, from, precision, options);
        case nn::precision::bf16:
            return std::make_shared<resident_model<bfloat16>>(std::move(network), on, from, precision, options);
        case nn::precision::int8: break;
    }
    throw error(errc::invalid_argument,
                "a resident network has no precision int8; accepted with 'resident' are f32, bf16 and f16");
}

}  // namespace sluice::serve

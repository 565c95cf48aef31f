// SPDX-License-Identifier: Apache-2.0
#include "nn/operators/residual_norm.hpp"

#include <cmath>

#include "nn/operators/held_row.hpp"
#include "nn/operators/launch_rows.hpp"
#include "nn/operators/row_sum.hpp"
#include "sluice/base/half.hpp"

namespace sluice::nn::operators {
namespace {

// Numbers of any of the three types, as f32.
struct number_list {
    const void* at;
    in_word<io::dtype> type;

    SLUICE_KERNEL float operator[](std::size_t i) const {
        switch (static_cast<io::dtype>(type)) {
            case io::dtype::f16: return static_cast<float>(static_cast<const half*>(at)[i]);
            case io::dtype::bf16: return static_cast<float>(static_cast<const bfloat16*>(at)[i]);
            default: return static_cast<const float*>(at)[i];
        }
    }
};

// As normalize_row (normalizations.cu) has it, of a + b. A team of a GPU keeps the sums of a row in registers where it
// can; elsewhere they are made again each time that they are read.
template <typename Narrow>
struct residual_row {
    number_list a, b;
    const float *scale, *bias;  // bias: or null
    float *sum, *y;             // or null
    Narrow* narrow;             // or null
    std::size_t width;
    double epsilon;

    template <typename Team>
    SLUICE_KERNEL void operator()(std::size_t row, const Team& team) const {
#if defined(__CUDA_ARCH__)
        if constexpr (Team::size() > 1) {
            if (width <= held_row<Team>::most_width) return hold(row, team);
        }
#endif
        const std::size_t first = row * width;
        const float share = 1 / static_cast<float>(width);  // before the sums, which could overflow
        row_sum<float> all;
        for (std::size_t j = team.rank(); j < width; j += team.size()) {
            const float x = a[first + j] + b[first + j];
            if (sum != nullptr) sum[first + j] = x;
            all.add(x * share);
        }
        const float centre = team.join(all.value(), added());
        row_sum<float> distances, squares;
        for (std::size_t j = team.rank(); j < width; j += team.size()) {
            const float distance = a[first + j] + b[first + j] - centre;
            distances.add(distance * share);
            squares.add(distance * share * distance);
        }
        const float missed = team.join(distances.value(), added());
        const float variance = team.join(squares.value(), added()) - missed * missed;
        const float factor = 1 / std::sqrt((variance < 0 ? 0.0f : variance) + static_cast<float>(epsilon));
        for (std::size_t j = team.rank(); j < width; j += team.size()) {
            float made = (a[first + j] + b[first + j] - centre - missed) * factor * scale[j];
            if (bias != nullptr) made += bias[j];
            if (y != nullptr) y[first + j] = made;
            if (narrow != nullptr) narrow[first + j] = Narrow(made);
        }
    }

#if defined(__CUDACC__)
private:
    template <typename Team>
    __device__ void hold(std::size_t row, const Team& team) const {
        const std::size_t first = row * width;
        held_row<Team> x(team, width);
        add_to(x, a, first);
        add_to(x, b, first);
        if (sum != nullptr) x.store(sum + first);
        float mean;
        const float factor = x.centre(true, static_cast<float>(epsilon), mean);
        x.scale(factor, scale, bias);
        if (y != nullptr) x.store(y + first);
        if (narrow != nullptr) x.store(narrow + first);
    }
    template <typename Team>
    __device__ static void add_to(held_row<Team>& x, const number_list& from, std::size_t first) {
        switch (static_cast<io::dtype>(from.type)) {
            case io::dtype::f16: return x.add(static_cast<const half*>(from.at) + first);
            case io::dtype::bf16: return x.add(static_cast<const bfloat16*>(from.at) + first);
            default: return x.add(static_cast<const float*>(from.at) + first);
        }
    }
#endif
};

}  // namespace

void add_and_normalize(const node_call& in, const any_tensor& a, const any_tensor& b, const any_tensor& scale,
                       const any_tensor& bias, double epsilon, const residual_results& to) {
    const std::size_t width = a.shape().back();
    const auto run = [&]<typename Narrow>() {
        const residual_row<Narrow> kernel{.a = {in.read<void>(a), a.type()},
                                          .b = {in.read<void>(b), b.type()},
                                          .scale = in.read<float>(scale),
                                          .bias = in.read<float>(bias),
                                          .sum = in.write<float>(to.sum),
                                          .y = in.write<float>(to.normalized),
                                          .narrow = in.write<Narrow>(to.narrow),
                                          .width = width,
                                          .epsilon = epsilon};
        each_row(in, a.elements() / width, width, team_of(width), kernel, {&a, &b, &scale, &bias},
                 {&to.sum, &to.normalized, &to.narrow});
    };
    if (to.narrow && to.narrow.type() == io::dtype::bf16) return run.template operator()<bfloat16>();
    run.template operator()<half>();
}

}  // namespace sluice::nn::operators

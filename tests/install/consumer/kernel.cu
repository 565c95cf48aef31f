// SPDX-License-Identifier: Apache-2.0
// A user's kernel file: compiled by nvcc if Sluice has CUDA, otherwise by the host compiler.
#include <sluice/runtime/launch.hpp>
#include <sluice/runtime/sync.hpp>
#include <sluice/runtime/transfer.hpp>
#include <type_traits>

template <class Value>
requires std::is_floating_point_v<Value>  // C++20, also under nvcc
SLUICE_KERNEL Value doubled(Value value) {
    return value + value;
}

struct twice_kernel {
    SLUICE_KERNEL void operator()(sluice::index_1d at, sluice::disjoint_view<float> x) const {
        if (float* const element = x.at(at)) *element = doubled(*element);
    }
};

std::vector<float> twice(std::vector<float> values, sluice::scheduling_policy& pool) {
    return sluice::sync(
        sluice::upload(std::move(values))
            .and_then([](auto x) { return sluice::launch(twice_kernel{}, sluice::each_of(x), std::move(x)); })
            .and_then(sluice::download),
        pool);
}

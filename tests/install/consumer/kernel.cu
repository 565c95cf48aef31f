// SPDX-License-Identifier: Apache-2.0
// A user's kernel file: compiled by nvcc if Sluice has CUDA, otherwise by the host compiler.
#include <sluice/kernels/resident_kernel.hpp>
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

// A kernel that stays on the device.
struct running_sum {
    int sum = 0;
    SLUICE_KERNEL void operator()(const sluice::thread_block& block, const int& more, int& answer) {
        block.for_each_thread([&](const sluice::block_thread& t) {
            if (t.index() == 0) answer = sum += more;
        });
    }
};

int sum_where_it_stays(const std::vector<int>& values, sluice::device& on) {
    const sluice::resident_kernel add(on, running_sum{}, {.all_kernels_are_loaded = true});
    int sum = 0;
    for (const int each : values) sum = add.ask(each);
    return sum;
}

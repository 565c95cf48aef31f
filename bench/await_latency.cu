// SPDX-License-Identifier: Apache-2.0
#include "await_latency.hpp"

#include "sluice/op/with_context.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/launch.hpp"
#include "support/by_hand.hpp"

namespace sluice::bench {
namespace {

__global__ void tick_by_hand(unsigned* x) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < tick_elements) x[i] += 1;
}

struct tick {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<unsigned> x) const {
        if (unsigned* const element = x.at(at)) *element += 1;
    }
};

}  // namespace

any_operation<tensor<unsigned>> ticks(tensor<unsigned> x, std::size_t n) {
    return with_context([x = std::move(x), n](execution_context& context) mutable {
        for (std::size_t i = 0; i < n; ++i) launch_on(context.stream(), tick{}, each_of(x), x);
        return std::move(x);
    });
}

struct ticks_by_hand::state {
    stream_by_hand stream = make_stream();
    device_array<unsigned> x = make_device<unsigned>(tick_elements);
};

ticks_by_hand::ticks_by_hand() : state_(std::make_unique<state>()) {
    check(cudaMemset(state_->x.get(), 0, tick_elements * sizeof(unsigned)));
    check(cudaDeviceSynchronize());
}
ticks_by_hand::~ticks_by_hand() = default;

void ticks_by_hand::run(std::size_t n) {
    for (std::size_t i = 0; i < n; ++i)
        tick_by_hand<<<tick_elements / 256, 256, 0, state_->stream.get()>>>(state_->x.get());
    check(cudaGetLastError());
    check(cudaStreamSynchronize(state_->stream.get()));
}

}  // namespace sluice::bench

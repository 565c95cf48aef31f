// SPDX-License-Identifier: Apache-2.0
// All forms of pipelined_transform compared, on a functor that only copies and on one that computes, over 256 MiB of
// floats; and the device's own copy of as many bytes. Each result is checked before timing.
#include <cmath>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "sluice/kernels/pipelined_transform.hpp"
#include "sluice/sluice.hpp"
#include "support/by_hand.hpp"
#include "support/device_timing.hpp"
#include "support/result.hpp"

namespace sluice::bench {
namespace {

constexpr std::size_t elements = std::size_t{1} << 26;

// Processes four floats at a time where a batch is whole.
struct only_copy {
    SLUICE_KERNEL void operator()(const float* batch, float* out, std::size_t count, unsigned rank,
                                  unsigned threads) const {
#if defined(__CUDA_ARCH__)
        if (count % 4 == 0) {
            for (std::size_t i = rank; i < count / 4; i += threads) {
                __stcs(reinterpret_cast<float4*>(out) + i, reinterpret_cast<const float4*>(batch)[i]);
            }
            return;
        }
#endif
        for (std::size_t i = rank; i < count; i += threads) out[i] = batch[i];
    }
};

// A chain of products that takes as long as a load.
struct compute {
    SLUICE_KERNEL static float of(float x) {
        float y = x;
        for (int i = 0; i < 24; ++i) y = y * 0.75f + x;
        return y;
    }
    SLUICE_KERNEL void operator()(const float* batch, float* out, std::size_t count, unsigned rank,
                                  unsigned threads) const {
        for (std::size_t i = rank; i < count; i += threads) out[i] = of(batch[i]);
    }
};

struct contender {
    std::string name;
    std::function<void(stream, const tensor<float>&, tensor<float>&)> run;
};

template <typename Function, typename Form>
contender contend(const std::string& name, Form form, const pipelined_options& options) {
    return {name + ", " + std::to_string(options.batch_bytes / 1024) + " KiB, " + std::to_string(options.threads) +
                " threads, " + std::to_string(options.blocks / 132) + " blocks a multiprocessor",
            [=](stream on, const tensor<float>& in, tensor<float>& out) {
                pipelined_transform(on, form, Function{}, in, out, options);
            }};
}

template <typename Function>
std::vector<contender> contenders() {
    std::vector<contender> all;
    for (const pipelined_options& options :
         {pipelined_options{256, 8192, 4 * 132}, pipelined_options{256, 16384, 2 * 132}}) {
        all.push_back(contend<Function>("plain loads", pipelined::plain_loads{}, options));
        all.push_back(contend<Function>("one stage", pipelined::one_stage{}, options));
        all.push_back(contend<Function>("two stages", pipelined::two_stages{}, options));
        all.push_back(contend<Function>("four stages", pipelined::n_stages<4>{}, options));
        all.push_back(contend<Function>("roles, 4 stages, a warp copies", pipelined::roles<4, 32>{}, options));
        all.push_back(contend<Function>("roles, 4 stages, half copy", pipelined::roles<4, 128>{}, options));
        all.push_back(contend<Function>("thread scope, 4 stages", pipelined::thread_scope<4>{}, options));
        all.push_back(contend<Function>("primitives, 4 stages", pipelined::primitives<4>{}, options));
        all.push_back(contend<Function>("arrivals, 4 stages", pipelined::arrivals<4>{}, options));
        all.push_back(contend<Function>("bulk, 2 stages", pipelined::bulk<2>{}, options));
        all.push_back(contend<Function>("bulk, 4 stages", pipelined::bulk<4>{}, options));
    }
    return all;
}

template <typename Function>
void compare(device& gpu, const char* functor) {
    single_stream policy(gpu);
    stream home = policy.next();
    const auto on = static_cast<cudaStream_t>(home.native().handle);
    std::vector<float> values(elements);
    for (std::size_t i = 0; i < elements; ++i) values[i] = static_cast<float>(i * 2654435761u % 1000) / 1000;
    const auto in = sync(upload(values, {elements}), policy);
    auto out = sync(zeros<float>({elements}), policy);
    std::vector<float> expected(elements), got(elements);
    Function{}(values.data(), expected.data(), elements, 0, 1);

    const auto all = contenders<Function>();
    std::vector<std::function<void()>> versions{[&] {
        check(cudaMemcpyAsync(out.device_data(), in.device_data(), in.size_bytes(), cudaMemcpyDeviceToDevice, on));
    }};
    for (const contender& each : all) {
        check(cudaMemsetAsync(out.device_data(), 0xff, out.size_bytes(), on));
        each.run(home, in, out);
        check(cudaStreamSynchronize(on));
        check(cudaMemcpy(got.data(), out.device_data(), out.size_bytes(), cudaMemcpyDeviceToHost));
        for (std::size_t i = 0; i < elements; ++i) {
            if (!(std::fabs(got[i] - expected[i]) <= 1e-5f * std::fabs(expected[i]))) {
                throw std::runtime_error("wrong: " + each.name);
            }
        }
        versions.push_back([&] { each.run(home, in, out); });
    }
    const auto times = device_medians(on, versions, 5, 7);
    const double bytes = 2.0 * elements * sizeof(float);
    const double copy = bytes / times[0] / 1e3;
    for (std::size_t i = 0; i < all.size(); ++i) {
        print({"pipelined_transform",
               "{\"functor\": \"" + std::string(functor) + "\", \"form\": \"" + all[i].name +
                   "\", \"baseline\": \"cudaMemcpy on the device\"}",
               bytes / times[i + 1] / 1e3, "GB/s", copy, gpu.properties().name});
    }
}

}  // namespace

void compare_forms() {
    runtime machine;
    device& gpu = machine.find("cuda:0");
    compare<only_copy>(gpu, "copies");
    compare<compute>(gpu, "computes");
}

}  // namespace sluice::bench

int main() try { sluice::bench::compare_forms(); } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}

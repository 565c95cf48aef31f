// SPDX-License-Identifier: Apache-2.0
// resident_network: a multi-layer perceptron that stays on a GPU. Its kernel never ends: it takes requests from the
// host's memory and answers there, without a launch, in a few microseconds.
//
//     const nn::resident_network<half> digits(machine.find("cuda"), nn::load_onnx("digits.onnx"));
//     digits.run(pixels, logits);                                      // at once: for the last microsecond
//     const std::vector<half> answer = sync(digits(pixels), pool);     // as an operation
//
// T is half, bfloat16 or float. Sums are float; between layers numbers are rounded to T, as a plan does. A network of
// floats has one block for each lane, so only a small one fits: some 50,000 weights. On a CPU device there is no
// kernel: run computes on the calling thread.
//
// The network takes `lanes() * blocks_of_lane()` multiprocessors of the GPU (multiprocessors()), and leaves the others
// to other work. What a kernel that stays means for the rest of the program:
//   - Calls of CUDA that wait for the whole GPU do not return before the network is destroyed: cudaDeviceSynchronize,
//     cudaFree, cudaFreeHost. Sluice makes none of them in the meantime: device::synchronize leaves the network out,
//     and memory that a pool gives back to the driver is given back after the network's end.
//   - With CUDA's lazy loading, which is the default, the first launch of any kernel waits for the whole GPU, and would
//     wait for ever. So such a process is refused: set CUDA_MODULE_LOADING=EAGER in the environment before the process
//     first uses CUDA. Or launch each kernel once before, and say so (resident_options::all_kernels_are_loaded).
//   - The same holds where a library loads its code. So while a network stays, Sluice refuses to create handles of
//     cuBLASLt, cuBLAS and cuDNN and communicators of NCCL, and to load modules (errc::unsupported): do it before, for
//     instance with one small product.
//   - Debuggers that stop the GPU, compute-sanitizer and MPS have not been tried with it.
//
// Every request gets an answer or an error: when the GPU faults, each caller gets the first cause (except for a failed
// assertion of another kernel: docs/microseconds.md); when the runtime is
// destroyed, errc::runtime_closed; when the kernel does not answer within resident_options::longest_wait,
// errc::timed_out, and so does each later call.
//
// A handle: copies share the network, and the last one ends the kernel, which takes some microseconds.
// Thread safety: all members may be called on any thread. Each request in flight has a lane; with more threads than
// lanes, threads wait for one another.
//
// All members take constant time, but for the constructor and update, which are linear in the number of parameters, and
// for calls of the network.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "sluice/base/half.hpp"
#include "sluice/base/source_location.hpp"
#include "sluice/nn/model.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/host_call.hpp"

namespace sluice::nn {

// How the network stays.
struct resident_options {
    // How many requests are computed at the same time.
    std::size_t lanes = 1;
    // The most rows of a request, 1 to 8. On a CPU device any number.
    std::size_t rows = 8;
    // Multiprocessors that share the weights of a lane: 1, 4, 8 or 16; 0 for the fewest of 1, 4 and 16 whose shared
    // memory they fit, as 16 answer sooner than 8 (bench/notes/resident.md). Of floats 1.
    std::size_t blocks_of_lane = 0;
    // How long the kernel pauses between two looks for a request. Without a pause it answers soonest; with one it reads
    // less from the host's memory, and a request waits up to that much longer. Up to a millisecond.
    std::chrono::nanoseconds pause = {};
    // The process has launched every kernel that it will launch while the network stays; see the top of this file.
    bool all_kernels_are_loaded = false;
    // How long a caller waits for an answer. At most a day.
    std::chrono::milliseconds longest_wait = std::chrono::seconds(2);
};

namespace detail {
template <typename T>
concept resident_element = std::same_as<T, half> || std::same_as<T, bfloat16> || std::same_as<T, float>;
template <resident_element T>
class resident_state;
}  // namespace detail

template <detail::resident_element T>
class resident_network {
public:
    // Puts the weights, rounded to T, on the device, starts the kernel and waits until it answers. Throws
    // file_error for a model that to_layers refuses; errc::invalid_argument for options that are out of range, for more
    // multiprocessors than the GPU has (one is left to others) and for layers that a plan cannot fuse either: more than
    // 9, wider than 2048, a softmax before the last (see kernels/fused_mlp.hpp); errc::unsupported for a GPU before
    // sm_80, for weights that do not fit into the shared memory of the blocks of a lane, with the bytes, where each
    // command is waited for (runtime_options::blocks_each_command) and where kernels are loaded lazily; errc::timed_out
    // when the GPU does not start it.
    resident_network(device& on, const model& from, const resident_options& options = {},
                     source_location location = source_location::current());

    std::size_t in_features() const noexcept;     // numbers of a row that goes in
    std::size_t out_features() const noexcept;    // numbers of a row that comes out
    std::size_t lanes() const noexcept;           // requests that are computed at the same time
    std::size_t blocks_of_lane() const noexcept;  // 0 on a CPU device
    // That the network takes, and that are left for other work. On a CPU device 0, and all workers.
    std::size_t multiprocessors() const noexcept { return lanes() * blocks_of_lane(); }
    std::size_t free_multiprocessors() const noexcept;  // those that are left for other work

    // Reads inputs [rows, in features] and writes outputs [rows, out features] before it returns. Does not allocate on
    // a GPU. Waits by spinning. Throws errc::shape_mismatch for inputs that are no whole rows and outputs of another
    // size; errc::invalid_argument for more rows than resident_options::rows; and see above.
    void run(std::span<const T> inputs, std::span<T> outputs) const;

    // The same as an operation, whose output is a pending std::vector<T>. It is a host call: it runs in its stream's
    // order, on a thread of the driver, and costs what a host call costs. Use run where microseconds count.
    auto operator()(std::vector<T> inputs) const {
        return host_call(
            [network = *this](const std::vector<T>& x) {
                std::vector<T> made(x.size() / network.in_features() * network.out_features());
                network.run(x, made);
                return made;
            },
            std::move(inputs));
    }

    // Other weights and biases from now on, in layers of the same sizes with the same activations; the kernel
    // continues. Costs O(parameters). Each answer is from the old or the new ones, and those of calls that begin after
    // this returns from the new. Blocks until all lanes have them. Throws errc::invalid_argument for another network,
    // and file_error for one that to_layers refuses; then nothing has changed.
    void update(const model& from) const;

private:
    // Throws errc::invalid_argument for a handle that was moved from.
    detail::resident_state<T>& held() const;

    std::shared_ptr<detail::resident_state<T>> state_;
};

}  // namespace sluice::nn

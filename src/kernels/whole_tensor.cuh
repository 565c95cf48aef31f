// Elementwise kernels over whole tensors: out[i] = function(in[i]), or of two inputs. The output may be an input.
//
// On a GPU a thread loads 16 bytes of the larger type at a time; of large tensors four such pieces before it computes,
// so that enough loads are under way. On a CPU a plain loop.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/elements.cuh"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/kernel.hpp"
#include "sluice/runtime/stream.hpp"

namespace sluice::kernels {

template <typename Function, typename Out, typename In, std::size_t Inputs>
struct whole_tensor {
    static constexpr std::size_t piece_elements = std::min(piece_size<In>, piece_size<Out>);
    static constexpr std::size_t inputs = Inputs;
    using in_element = In;
    using piece_in = piece<In, piece_elements>;
    using piece_out = piece<Out, piece_elements>;

    std::size_t count;
    Out* out;
    const In* in[Inputs];
    Function function;

    // Of elements at the same place, from each input.
    SLUICE_KERNEL Out result(const In (&of)[Inputs]) const {
        if constexpr (Inputs == 1) {
            return function(of[0]);
        } else {
            return function(of[0], of[1]);
        }
    }
    SLUICE_KERNEL void make_element(std::size_t i) const {
        In of[Inputs];
        for (std::size_t k = 0; k < Inputs; ++k) of[k] = in[k][i];
        out[i] = result(of);
    }

    static void run_on_host(const void* closure) {
        const whole_tensor all = *static_cast<const whole_tensor*>(closure);
        for (std::size_t i = 0; i < all.count; ++i) all.make_element(i);
    }
};

#if defined(__CUDACC__)
constexpr unsigned whole_tensor_threads = 256;

template <typename Closure, unsigned Pieces>
__global__ void __launch_bounds__(whole_tensor_threads) whole_tensor_on_device(const __grid_constant__ Closure all) {
    constexpr std::size_t size = Closure::piece_elements;
    constexpr std::size_t inputs = Closure::inputs;
    const std::size_t whole = all.count / size;
    const std::size_t first = std::size_t{blockIdx.x} * (whole_tensor_threads * Pieces) + threadIdx.x;

    typename Closure::piece_in some[Pieces][inputs];
#pragma unroll
    for (unsigned p = 0; p < Pieces; ++p) {
        const std::size_t at = first + p * whole_tensor_threads;
        if (at >= whole) break;
#pragma unroll
        for (std::size_t k = 0; k < inputs; ++k) {
            some[p][k] = reinterpret_cast<const typename Closure::piece_in*>(all.in[k])[at];
        }
    }
#pragma unroll
    for (unsigned p = 0; p < Pieces; ++p) {
        const std::size_t at = first + p * whole_tensor_threads;
        if (at >= whole) break;
        typename Closure::piece_out made;
#pragma unroll
        for (std::size_t i = 0; i < size; ++i) {
            typename Closure::in_element of[inputs];
#pragma unroll
            for (std::size_t k = 0; k < inputs; ++k) of[k] = some[p][k].element[i];
            made.element[i] = all.result(of);
        }
        reinterpret_cast<typename Closure::piece_out*>(all.out)[at] = made;
    }
    // What is less than a piece.
    if (blockIdx.x == 0 && threadIdx.x < all.count - whole * size) all.make_element(whole * size + threadIdx.x);
}
#endif

// Submits it; nothing for no elements.
template <typename Closure>
void launch_whole_tensor(stream& on, const command_info& info, const Closure& closure) {
    if (closure.count == 0) return;
    launch_command command;
#if defined(__CUDACC__)
    // While all threads that a GPU holds have a piece or less, more threads are better than more pieces a thread.
    const std::size_t pieces = (closure.count + Closure::piece_elements - 1) / Closure::piece_elements;
    const bool is_large = pieces > std::size_t{2048} * static_cast<std::size_t>(on.owner().properties().compute_units);
    command.device_function = is_large ? reinterpret_cast<const void*>(&whole_tensor_on_device<Closure, 4>)
                                       : reinterpret_cast<const void*>(&whole_tensor_on_device<Closure, 1>);
    const std::size_t a_block = whole_tensor_threads * (is_large ? 4 : 1);
    command.grid.x = static_cast<unsigned>((pieces + a_block - 1) / a_block);
    command.block.x = whole_tensor_threads;
#endif
    command.host_function = &Closure::run_on_host;
    command.closure = &closure;
    command.closure_bytes = sizeof(closure);
    on.launch(info, command);
}

}  // namespace sluice::kernels

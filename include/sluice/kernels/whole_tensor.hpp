// SPDX-License-Identifier: Apache-2.0
// Elementwise kernels over whole tensors, from a function on one element. For plain forms, in files that nvcc compiles:
//
//     struct doubled { SLUICE_KERNEL float operator()(float x) const { return 2 * x; } };
//     kernels::update_elements(on, x, "double", location, doubled{});
//
// On a GPU a thread loads 16 bytes of the larger type at a time; of large tensors four such pieces before it computes,
// so that enough loads are in flight: 0.94 to 1.05 of the rate of a copy on an H200 (bench/results). On a CPU a loop.
// A function that needs its index, other elements, or an output of another shape is a kernel for launch_on instead.
//
// A launch is one command and does not block; no elements submit nothing. The function is trivially copyable, and its
// result depends on its arguments alone: elements are computed in any order. The output may be an input.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <type_traits>

#include "sluice/base/kernel.hpp"
#include "sluice/kernels/detail/elements.hpp"
#include "sluice/runtime/detail/closure.hpp"
#include "sluice/runtime/stream.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice {

namespace detail {
// Whether that many threads are more than the stream's device holds at once.
bool are_many_threads(stream on, std::size_t threads);
}  // namespace detail

namespace kernels {
inline namespace SLUICE_LAUNCH_ABI {

// The closure of such a launch: where the elements are, and the function. update_elements makes one.
template <typename Function, typename Out, typename In, std::size_t Inputs>
struct whole_tensor {
    static_assert(std::is_trivially_copyable_v<Function>, "the function is copied to the device byte by byte");
    // How many elements a thread loads at once.
    static constexpr std::size_t piece_elements = piece_size<In> < piece_size<Out> ? piece_size<In> : piece_size<Out>;
    static constexpr std::size_t inputs = Inputs;  // how many tensors are read
    using in_element = In;                         // of the inputs
    using piece_in = piece<In, piece_elements>;    // the elements that a thread loads at once
    using piece_out = piece<Out, piece_elements>;  // the elements that a thread stores at once

    std::size_t count;     // of elements
    Out* out;              // the first element of the output
    const In* in[Inputs];  // the first element of each input
    Function function;     // makes an element from one element of each input

    // Of elements at the same place, from each input. Costs one call of the function.
    SLUICE_KERNEL Out result(const In (&of)[Inputs]) const {
        if constexpr (Inputs == 1) {
            return function(of[0]);
        } else {
            return function(of[0], of[1]);
        }
    }
    // Computes element i of the output. Costs one call of the function.
    SLUICE_KERNEL void make_element(std::size_t i) const {
        In of[Inputs];
        for (std::size_t k = 0; k < Inputs; ++k) of[k] = in[k][i];
        out[i] = result(of);
    }

    // Computes all elements on the calling thread: the body of the launch on a CPU. Costs one call of the function for
    // each element.
    static void run_on_host(const void* closure) {
        const whole_tensor all = *static_cast<const whole_tensor*>(closure);
        if constexpr (Inputs == 1 && std::is_same_v<In, Out>) {
            // In place the compiler sees one pointer, and uses vectors without a check for an overlap.
            if (all.in[0] == all.out) {
                for (Out *x = all.out, *const end = x + all.count; x != end; ++x) *x = all.function(*x);
                return;
            }
        }
        for (std::size_t i = 0; i < all.count; ++i) all.make_element(i);
    }
};

#if defined(__CUDACC__)
inline constexpr unsigned whole_tensor_threads = 256;  // of a block on a GPU

// The body of the launch on a GPU: each thread makes `Pieces` pieces. Each thread costs at most `Pieces` loads of each
// input, and a call of the function for each element of these.
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
        typename Closure::piece_out results;
#pragma unroll
        for (std::size_t i = 0; i < size; ++i) {
            typename Closure::in_element of[inputs];
#pragma unroll
            for (std::size_t k = 0; k < inputs; ++k) of[k] = some[p][k].element[i];
            results.element[i] = all.result(of);
        }
        reinterpret_cast<typename Closure::piece_out*>(all.out)[at] = results;
    }
    // The elements after the last whole piece.
    if (blockIdx.x == 0 && threadIdx.x < all.count - whole * size) all.make_element(whole * size + threadIdx.x);
}
#endif

// The launch as one command on a stream, for a whole_tensor that is filled in. `info` names the memory. Costs one
// command.
template <typename Closure>
void launch_whole_tensor(stream on, const command_info& info, Closure closure) {
    if (closure.count == 0) return;
    launch_command command;
#if defined(__CUDACC__)
    // While all threads that a GPU holds have a piece or less, more threads are better than more pieces a thread.
    const std::size_t pieces = (closure.count + Closure::piece_elements - 1) / Closure::piece_elements;
    const bool is_large = sluice::detail::are_many_threads(on, pieces);
    command.device_function = is_large ? reinterpret_cast<const void*>(&whole_tensor_on_device<Closure, 4>)
                                       : reinterpret_cast<const void*>(&whole_tensor_on_device<Closure, 1>);
    const std::size_t a_block = whole_tensor_threads * (is_large ? 4 : 1);
    command.grid.x = static_cast<unsigned>((pieces + a_block - 1) / a_block);
    command.block.x = whole_tensor_threads;
#endif
    command.host_function = &Closure::run_on_host;
    command.may_fail = SLUICE_CHECK_BOUNDS != 0;  // the function may hold views
    sluice::detail::set_closure(command, closure);
    on.launch(info, command);
}

// x[i] = f(x[i]). The name, in traces and errors, is of characters that live for ever. Errors, before anything is
// submitted: errc::invalid_argument for a tensor that was moved from. Costs one command.
template <typename T, typename Function>
void update_elements(stream on, tensor<T>& x, std::string_view name, const source_location& location, Function f) {
    sluice::detail::require_held(x, {name, sluice::detail::device_name(on), location});
    const std::array accesses{memory_access{x.memory(), access_mode::write}};
    launch_whole_tensor(on, {name, accesses, location},
                        whole_tensor<Function, T, T, 1>{x.size(), x.device_data(), {x.device_data()}, f});
}

}  // namespace SLUICE_LAUNCH_ABI
}  // namespace kernels

template <typename Function, typename Out, typename In, std::size_t Inputs>
inline constexpr bool detail::can_clear_padding<kernels::whole_tensor<Function, Out, In, Inputs>> =
    can_clear_padding<Function>;

}  // namespace sluice

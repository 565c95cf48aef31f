// SPDX-License-Identifier: Apache-2.0
// The bodies of gemm: what each device is asked to do.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sluice/kernels/activation.hpp"
#include "sluice/kernels/gemm_tuning.hpp"
#include "sluice/runtime/command.hpp"
#include "sluice/runtime/detail/closure.hpp"

namespace sluice::kernels {

constexpr std::size_t bytes_of(gemm_type type) { return type == gemm_type::f32 || type == gemm_type::tf32 ? 4 : 2; }

// How a GPU does it.
struct gemm_algorithm {
    enum class by : unsigned char { library, wgmma, tiles };
    by what = by::library;
    unsigned char which = 0;  // of the library's proposals, or of the compiled tiles

    friend bool operator==(const gemm_algorithm&, const gemm_algorithm&) = default;
};

// All pointers are memory of the device; matrices are row-major and dense. Trivially copyable.
struct gemm_call {
    const void* a;     // [rows, inner]
    const void* b;     // [inner, columns], or [columns, inner] when transposed
    const void* bias;  // [columns], or null
    void* out;         // [rows, columns]
    void* workspace;   // gemm_workspace_bytes() of them
    gemm_problem problem;
    activation after;
    gemm_algorithm way;  // on a GPU
};

// Runs on a worker thread of a CPU device, all of it, with any activation but softmax; throws device_error when the
// library refuses. Elements are floats.
void gemm_on_cpu(const gemm_call& call);

// Enqueues on the native stream of a GPU; throws device_error.
void gemm_on_cuda(const gemm_call& call, const native_stream& on);
// Whether it also applies the activation; if not, the caller does so afterwards.
bool gemm_on_cuda_fuses(const gemm_call& call) noexcept;
std::size_t gemm_on_cuda_workspace_bytes() noexcept;
// The way for this call on this GPU, as measured, or where nothing was, as experience has it.
gemm_algorithm choose_gemm_algorithm(device& gpu, const gemm_call& call);
// All ways that there are for it, cuBLASLt's first; and what a table calls each.
std::vector<gemm_algorithm> gemm_algorithms_for(device& gpu, const gemm_call& call);
std::string to_string(const gemm_algorithm& way);
// Measures, and uses the result from then on. See tune_gemm.
std::vector<gemm_measurement> tune_gemm_on_cuda(device& gpu, std::span<const gemm_problem> problems,
                                                const std::filesystem::path& file,
                                                const std::function<void(const gemm_measurement&)>& done);

}  // namespace sluice::kernels

// None has an array of classes.
template <>
inline constexpr bool sluice::detail::can_clear_padding<sluice::kernels::gemm_call> =
    sluice::detail::compiler_clears_padding;

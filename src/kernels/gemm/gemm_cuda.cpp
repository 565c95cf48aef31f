// SPDX-License-Identifier: Apache-2.0
// gemm on a GPU: which way, and each way.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <mutex>

#include "cuda/api/commands.hpp"
#include "cuda/api/runtime.hpp"
#include "cuda/cublaslt_plans.hpp"
#include "cuda/early_starts.hpp"
#include "kernels/gemm/gemm_algorithms.hpp"
#include "kernels/gemm/gemm_hopper.hpp"
#include "kernels/gemm/gemm_tiles.hpp"
#include "sluice/cuda/device_context.hpp"

namespace sluice::kernels {
namespace {

using cuda::device_context;

cuda::matmul_type matmul_type_of(gemm_type type) {
    switch (type) {
        case gemm_type::tf32: return cuda::matmul_type::tf32;
        case gemm_type::f16: return cuda::matmul_type::f16;
        case gemm_type::bf16: return cuda::matmul_type::bf16;
        case gemm_type::f32: break;
    }
    return cuda::matmul_type::f32;
}

bool is_aligned(const void* operand) { return reinterpret_cast<std::uintptr_t>(operand) % 256 == 0; }

cuda::matmul_shape matmul_of(const gemm_call& call) {
    const gemm_problem& of = call.problem;
    return {matmul_type_of(of.type),
            of.rows,
            of.columns,
            of.inner,
            of.b_is_transposed,
            call.bias != nullptr,
            call.way.which,
            is_aligned(call.a) && is_aligned(call.b) && is_aligned(call.out)};
}

bool fits_hopper(const device& gpu, const gemm_problem& problem) {
    return gpu.properties().compute_capability == 90 && gemm_fits_hopper(problem);
}

// Whether cuBLASLt is an option. It applies no activation: its ReLU turns NaN into 0 for some shapes, and its GELU is
// the tanh approximation. Of floats, the activation may be a command of its own. Of 16-bit elements only a ReLU may,
// since it gives the same before and after the result is rounded; but as it reads and writes the result once more,
// Hopper's kernels, which apply it on the way, are as fast or faster (bench/results, gemm_variant).
bool library_will_do(const gemm_call& call, bool fits_hopper) noexcept {
    if (call.problem.type == gemm_type::tf32 || call.after == activation::none) return true;
    return call.after == activation::relu && !fits_hopper;
}

// Products of 16-bit elements with a tile of 64 x 64 for each multiprocessor at most. There ours were as fast as
// cuBLASLt's or faster (bench/results/2026-11-28-h200-few-rows), and in graphs they start early.
bool is_one_wave(const gemm_problem& of, const device_properties& gpu) {
    constexpr std::size_t side = 64;
    // A longer inner dimension was not measured: cuBLASLt may divide it among more multiprocessors.
    constexpr std::size_t longest_measured = 2048;
    if ((of.type != gemm_type::f16 && of.type != gemm_type::bf16) || of.inner > longest_measured) return false;
    const std::size_t down = (of.rows + side - 1) / side, across = (of.columns + side - 1) / side;
    return down <= static_cast<std::size_t>(gpu.compute_units) / across;
}

// The tile that leaves the fewest multiprocessors without work, and of those the one that reads least. To bring the
// sums of two parts together takes as long as 500 steps of the inner dimension (a tile of 64 x 64 on an H200), and as
// much again for each doubling of the parts.
unsigned char likely_tile(const gemm_problem& of, const device_properties& gpu) {
    constexpr double adding_up = 500;
    const auto all = hopper_tiles();
    const auto cost = [&](const hopper_tile& tile) {
        const std::size_t height = std::size_t{tile.rows} * tile.cluster;
        const std::size_t tiles = (of.rows + height - 1) / height * ((of.columns + tile.columns - 1) / tile.columns);
        const std::size_t units = static_cast<std::size_t>(gpu.compute_units) / (tile.cluster * tile.parts);
        const double rounds = static_cast<double>((tiles + units - 1) / units);
        const double reads = 40.0 * (tile.rows + tile.columns / static_cast<double>(tile.cluster));
        const double step = tile.rows * tile.columns + reads, steps = static_cast<double>(of.inner);
        return rounds * (step * steps / tile.parts + adding_up * std::log2(tile.parts) * step);
    };
    const auto best =
        std::min_element(all.begin(), all.end(), [&](const auto& x, const auto& y) { return cost(x) < cost(y); });
    return static_cast<unsigned char>(best - all.begin());
}

// The kernels' handles, as the driver knows them; kept, since looking one up costs as much as a launch.
class kernel_handles {
public:
    explicit kernel_handles(device_context&) {}

    CUfunc_st* find(const launch_command& command, const error_context& context) {
        const std::lock_guard lock(mutex_);
        CUfunc_st*& kernel = known_[command.device_function];
        if (kernel == nullptr) {
            CUfunc_st* const found = cuda::api::find_kernel(command.device_function, context);
            cuda::api::allow_shared_memory(found, context);
            kernel = found;
        }
        return kernel;
    }

private:
    std::mutex mutex_;
    std::map<const void*, CUfunc_st*> known_;
};

void launch(launch_command command, const native_stream& on) {
    command.early_start &= cuda::early_starts::are_possible();
    device& gpu = on.queue->owner();
    const error_context context{"gemm", gpu.name()};
    CUfunc_st* const kernel = device_context::of(gpu).kept<kernel_handles>().find(command, context);
    if (cuda::left_kernel* const left = cuda::early_starts::left(); left != nullptr && command.early_start)
        return left->keep(kernel, command);
    cuda::api::launch(kernel, command, static_cast<CUstream_st*>(on.handle), context);
}

}  // namespace

bool gemm_on_cuda_fuses(const gemm_call& call) noexcept {
    if (call.after == activation::softmax) return false;
    return call.way.what != gemm_algorithm::by::library || call.after == activation::none;
}

std::size_t gemm_on_cuda_workspace_bytes() noexcept { return cuda::cublaslt::workspace_bytes; }

gemm_algorithm choose_gemm_algorithm(device& gpu, const gemm_call& call) {
    if (call.problem.type == gemm_type::f32) return {};
    auto& context = device_context::of(gpu);
    const cuda::api::device_scope scope(context.ordinal());
    const bool fits = fits_hopper(gpu, call.problem);
    const auto measured = context.kept<gemm_algorithms>().find(call.problem);
    const auto is_possible = [&](const gemm_algorithm& way) {
        if (way.what == gemm_algorithm::by::wgmma) return fits;
        if (way.what == gemm_algorithm::by::tiles) return gpu.properties().compute_capability >= 80;
        gemm_call with = call;
        with.way = way;
        return library_will_do(call, fits) && context.matmul().supports(matmul_of(with));
    };
    // Measured without bias and activation. With others the library proposes other algorithms, in another order.
    const bool is_plain = call.bias == nullptr && call.after == activation::none;
    const bool is_good = measured && (is_plain || measured->what != gemm_algorithm::by::library);
    if (is_good && is_possible(*measured)) return *measured;
    if (is_possible({}) && !(fits && is_one_wave(call.problem, gpu.properties()))) return {};
    if (fits) return {gemm_algorithm::by::wgmma, likely_tile(call.problem, gpu.properties())};
    if (gpu.properties().compute_capability >= 80) return {gemm_algorithm::by::tiles, 0};
    throw error(errc::unsupported, "needs a GPU of compute capability 8.0 or later", {"gemm", gpu.name()});
}

void gemm_on_cuda(const gemm_call& call, const native_stream& on) {
    device& gpu = on.queue->owner();
    switch (call.way.what) {
        case gemm_algorithm::by::library:
            return device_context::of(gpu).matmul().multiply(matmul_of(call), call.a, call.b, call.bias, call.out,
                                                             call.workspace, static_cast<cudaStream_t>(on.handle));
        case gemm_algorithm::by::wgmma: {
            gemm_wgmma_call closure{};
            const launch_command command = gemm_on_hopper(call, gpu.properties(), closure);
            const cuda::left_kernel* const left = cuda::early_starts::left();
            constexpr std::size_t place_of_b = 1;  // among what gemm reads
            closure.b_is_there = left != nullptr && left->is_constant(place_of_b);
            return launch(command, on);
        }
        case gemm_algorithm::by::tiles: {
            gemm_tiles_closure closure{};
            return launch(gemm_with_tiles(call, closure), on);
        }
    }
}

std::vector<gemm_algorithm> gemm_algorithms_for(device& gpu, const gemm_call& call) {
    std::vector<gemm_algorithm> all;
    auto& context = device_context::of(gpu);
    const cuda::api::device_scope scope(context.ordinal());
    auto& library = context.matmul();
    for (unsigned char proposal = 0; proposal < most_library_proposals; ++proposal) {
        gemm_call with = call;
        with.way = {gemm_algorithm::by::library, proposal};
        if (library.supports(matmul_of(with))) all.push_back(with.way);
    }
    if (fits_hopper(gpu, call.problem)) {
        for (std::size_t tile = 0; tile < hopper_tiles().size(); ++tile) {
            all.push_back({gemm_algorithm::by::wgmma, static_cast<unsigned char>(tile)});
        }
    } else if (gpu.properties().compute_capability >= 80) {
        all.push_back({gemm_algorithm::by::tiles, 0});
    }
    return all;
}

std::string to_string(const gemm_algorithm& way) {
    switch (way.what) {
        case gemm_algorithm::by::library: return "cuBLASLt " + std::to_string(way.which);
        case gemm_algorithm::by::wgmma: return "wgmma " + std::string(hopper_tiles()[way.which].name);
        case gemm_algorithm::by::tiles: return "tiles";
    }
    return {};
}

}  // namespace sluice::kernels

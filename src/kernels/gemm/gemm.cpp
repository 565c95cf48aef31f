// SPDX-License-Identifier: Apache-2.0
#include "sluice/kernels/gemm.hpp"

#include <array>
#include <span>

#include "kernels/gemm/gemm_dispatch.hpp"
#include "kernels/gemm/product_end.hpp"
#include "sluice/kernels/elementwise.hpp"
#include "sluice/runtime/detail/closure.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice {
namespace {

using kernels::gemm_call;

template <typename T>
gemm_type type_of(const gemm_options& options) {
    if constexpr (std::same_as<T, half>) return gemm_type::f16;
    if constexpr (std::same_as<T, bfloat16>) return gemm_type::bf16;
    return options.allow_tf32 ? gemm_type::tf32 : gemm_type::f32;
}

template <typename T>
const float* as_floats(const void* from, std::size_t count, float*& free) {
    if (from == nullptr) return nullptr;
    const T* const elements = static_cast<const T*>(from);
    float* const made = free;
    for (std::size_t i = 0; i < count; ++i) made[i] = elements[i];
    free += count;
    return made;
}

// How many floats the body for a CPU needs in addition to its operands.
std::size_t floats_of(const gemm_call& call) {
    const auto& of = call.problem;
    return of.rows * of.inner + of.inner * of.columns + of.columns + of.rows * of.columns;
}

template <typename T>
void run_on_cpu(const gemm_call& call) {
    if constexpr (std::same_as<T, float>) {
        kernels::gemm_on_cpu(call);
    } else {
        const auto& of = call.problem;
        auto* free = static_cast<float*>(call.workspace);
        gemm_call in_floats = call;
        in_floats.a = as_floats<T>(call.a, of.rows * of.inner, free);
        in_floats.b = as_floats<T>(call.b, of.inner * of.columns, free);
        in_floats.bias = as_floats<T>(call.bias, of.columns, free);
        in_floats.out = free;
        kernels::gemm_on_cpu(in_floats);
        auto* const out = static_cast<T*>(call.out);
        for (std::size_t i = 0; i < of.rows * of.columns; ++i) out[i] = T(free[i]);
    }
}

template <typename T>
void run_gemm(const native_stream& on, const void* closure) {
    const auto& call = *static_cast<const gemm_call*>(closure);
    if (on.kind == device_kind::cuda) {
        kernels::gemm_on_cuda(call, on);
    } else {
        run_on_cpu<T>(call);
    }
}

}  // namespace

shape detail::gemm_shape(const shape& a, const shape& b, const shape* bias, const gemm_options& options,
                         const error_context& context) {
    if (a.rank() != 2 || b.rank() != 2) {
        throw error(errc::shape_mismatch, "multiplies matrices, not " + to_string(a) + " by " + to_string(b), context);
    }
    const std::size_t inner = options.transpose_b ? b[1] : b[0];
    const std::size_t columns = options.transpose_b ? b[0] : b[1];
    if (a[1] != inner) {
        throw error(
            errc::shape_mismatch,
            to_string(a) + " cannot be multiplied by " + to_string(b) + (options.transpose_b ? " transposed" : ""),
            context);
    }
    if (bias != nullptr && bias->size() != columns) {
        throw error(errc::shape_mismatch,
                    "a bias of shape " + to_string(*bias) + " does not fit " + std::to_string(columns) + " columns",
                    context);
    }
    return {a[0], columns};
}

namespace {

// An activation that gemm's body leaves to a command of its own.
template <typename T>
void activate_product(stream on, tensor<T>& out, activation after, const source_location& location) {
    if (after == activation::relu) return kernels::rectify(on, out, location);
    if constexpr (std::same_as<T, float>) activate(on, out, after, location);
}

}  // namespace

template <detail::gemm_element T>
void gemm(stream on, const tensor<T>& a, const tensor<T>& b, std::type_identity_t<const tensor<T>*> bias,
          tensor<T>& out, const gemm_options& options, source_location location) {
    const error_context context{"gemm", on.owner().name(), location};
    const shape expected =
        detail::gemm_shape(a.shape(), b.shape(), bias != nullptr ? &bias->shape() : nullptr, options, context);
    if (out.shape() != expected) {
        throw error(errc::shape_mismatch,
                    "the product is " + to_string(expected) + ", the output " + to_string(out.shape()), context);
    }
    if (!std::same_as<T, float> && options.after == activation::softmax) {
        throw error(errc::invalid_argument, "softmax after a product of 16-bit elements is a command of its own",
                    context);
    }
    if (out.size() == 0) return;
    if (out.memory() == a.memory() || out.memory() == b.memory() ||
        (bias != nullptr && out.memory() == bias->memory())) {
        throw error(errc::invalid_argument, "the output is also an operand", context);
    }
    if (a.columns() == 0) {
        const bool is_softmax = options.after == activation::softmax;
        kernels::finish_empty_product(on, bias, out, is_softmax ? activation::none : options.after, location);
        if (is_softmax) activate_product(on, out, options.after, location);
        return;
    }

    gemm_call call{a.device_data(),
                   b.device_data(),
                   bias != nullptr ? bias->device_data() : nullptr,
                   out.device_data(),
                   nullptr,
                   {type_of<T>(options), options.transpose_b, expected[0], expected[1], a.shape()[1]},
                   options.after,
                   {}};
    const bool on_gpu = on.owner().kind() == device_kind::cuda;
    if (on_gpu) call.way = kernels::choose_gemm_algorithm(on.owner(), call);
    const bool fuses = on_gpu ? kernels::gemm_on_cuda_fuses(call) : options.after != activation::softmax;
    if (!fuses) call.after = activation::none;

    std::array<memory_access, 5> accesses{memory_access{a.memory(), access_mode::read},
                                          memory_access{b.memory(), access_mode::read},
                                          memory_access{out.memory(), access_mode::write}};
    std::size_t count = 3;
    if (bias != nullptr) accesses[count++] = {bias->memory(), access_mode::read};
    storage_ref workspace;
    const std::size_t workspace_bytes = on_gpu                   ? kernels::gemm_on_cuda_workspace_bytes()
                                        : std::same_as<T, float> ? 0
                                                                 : floats_of(call) * sizeof(float);
    if (workspace_bytes != 0) {
        workspace = on.workspace(workspace_bytes);
        call.workspace = workspace->data();
        accesses[count++] = {workspace.get(), access_mode::write};
    }
    on.library_call({"gemm", std::span(accesses.data(), count), location},
                    detail::library_call_with(&run_gemm<T>, call));
    if (!fuses) activate_product(on, out, options.after, location);
}

template void gemm(stream, const tensor<float>&, const tensor<float>&, const tensor<float>*, tensor<float>&,
                   const gemm_options&, source_location);
template void gemm(stream, const tensor<half>&, const tensor<half>&, const tensor<half>*, tensor<half>&,
                   const gemm_options&, source_location);
template void gemm(stream, const tensor<bfloat16>&, const tensor<bfloat16>&, const tensor<bfloat16>*, tensor<bfloat16>&,
                   const gemm_options&, source_location);

}  // namespace sluice

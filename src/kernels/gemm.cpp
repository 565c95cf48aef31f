#include "sluice/kernels/gemm.hpp"

#include <array>
#include <vector>

#include "kernels/gemm_bodies.hpp"
#include "sluice/kernels/elementwise.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice {
namespace {

void run_gemm(const native_stream& on, const void* closure) {
    const auto& call = *static_cast<const kernels::gemm_call*>(closure);
    if (on.kind == device_kind::cuda) {
        kernels::gemm_on_cuda(call, on);
    } else {
        kernels::gemm_on_cpu(call);
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
    if (inner == 0) throw error(errc::shape_mismatch, "the inner dimension is 0", context);
    if (bias != nullptr && bias->size() != columns) {
        throw error(errc::shape_mismatch,
                    "a bias of shape " + to_string(*bias) + " does not fit " + std::to_string(columns) + " columns",
                    context);
    }
    return {a[0], columns};
}

void gemm(stream& on, const tensor<float>& a, const tensor<float>& b, const tensor<float>* bias, tensor<float>& out,
          const gemm_options& options, source_location where) {
    const shape expected = detail::gemm_shape(a.shape(), b.shape(), bias != nullptr ? &bias->shape() : nullptr, options,
                                              {"gemm", on.owner().name(), where});
    if (out.shape() != expected) {
        throw error(errc::shape_mismatch,
                    "the product is " + to_string(expected) + ", the output " + to_string(out.shape()),
                    {"gemm", on.owner().name(), where});
    }
    if (out.size() == 0) return;
    if (out.memory() == a.memory() || out.memory() == b.memory() ||
        (bias != nullptr && out.memory() == bias->memory())) {
        throw error(errc::invalid_argument, "the output is also an operand", {"gemm", on.owner().name(), where});
    }

    const bool on_gpu = on.owner().kind() == device_kind::cuda;
    const bool fuses = on_gpu ? kernels::gemm_on_cuda_fuses(options.after) : kernels::gemm_on_cpu_fuses(options.after);
    kernels::gemm_call call{a.device_data(),
                            b.device_data(),
                            bias != nullptr ? bias->device_data() : nullptr,
                            out.device_data(),
                            nullptr,
                            expected[0],
                            expected[1],
                            a.shape()[1],
                            options.transpose_b,
                            fuses ? options.after : activation::none};

    std::array<memory_access, 5> accesses{memory_access{a.memory(), access_mode::read},
                                          memory_access{b.memory(), access_mode::read},
                                          memory_access{out.memory(), access_mode::write}};
    std::size_t count = 3;
    if (bias != nullptr) accesses[count++] = {bias->memory(), access_mode::read};
    storage_ref workspace;
    if (on_gpu) {
        workspace = on.workspace(kernels::gemm_on_cuda_workspace_bytes());
        call.workspace = workspace->data();
        accesses[count++] = {workspace.get(), access_mode::write};
    }
    on.library_call({"gemm", std::span(accesses.data(), count), where}, {&run_gemm, &call, sizeof(call)});
    if (!fuses) activate(on, out, options.after, where);
}

}  // namespace sluice

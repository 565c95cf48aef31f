// SPDX-License-Identifier: Apache-2.0
#include "devices/nccl_call.hpp"

namespace sluice::detail {
namespace {

ncclDataType_t to_nccl(collective_type type) {
    switch (type) {
        case collective_type::f32: return ncclFloat32;
        case collective_type::f64: return ncclFloat64;
        case collective_type::f16: return ncclFloat16;
        case collective_type::bf16: return ncclBfloat16;
        case collective_type::i32: return ncclInt32;
        case collective_type::u32: break;
    }
    return ncclUint32;
}

ncclRedOp_t to_nccl(reduce_op how) {
    switch (how) {
        case reduce_op::sum: return ncclSum;
        case reduce_op::max: return ncclMax;
        case reduce_op::min: break;
    }
    return ncclMin;
}

}  // namespace

ncclResult_t enqueue(const collective_form& form, const void* in, void* out, ncclComm_t by, cudaStream_t on) {
    const auto& nccl = cuda::api::nccl_functions::get();
    const ncclDataType_t type = to_nccl(form.type);
    switch (form.kind) {
        case collective_kind::all_reduce: return nccl.all_reduce(in, out, form.count, type, to_nccl(form.how), by, on);
        case collective_kind::broadcast:
            return nccl.broadcast(in, out, form.count, type, static_cast<int>(form.root), by, on);
        case collective_kind::all_gather: return nccl.all_gather(in, out, form.count, type, by, on);
        case collective_kind::reduce_scatter: break;
    }
    return nccl.reduce_scatter(in, out, form.count, type, to_nccl(form.how), by, on);
}

}  // namespace sluice::detail

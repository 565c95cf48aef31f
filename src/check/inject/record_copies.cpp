// SPDX-License-Identifier: Apache-2.0
// Calls that copy and fill.
#include <algorithm>

#include "check/inject/recorder.hpp"

namespace sluice::check {
namespace {

constexpr std::uint64_t most_slices = 1024;

void write_copy(recorder& to, const driver_call& call, std::uint64_t target, std::uint64_t source, std::uint64_t bytes,
                const char* kind, CUstream handle, bool is_sync) {
    const std::uint64_t stream = to.stream(call, handle);
    to.begin("copy");
    to.to().number("stream", stream);
    to.to().number("to", target);
    to.to().number("from", source);
    to.to().number("bytes", bytes);
    to.to().text("kind", kind);
    if (is_sync) to.to().yes("sync");
    if (call.has_failed) to.to().yes("failed");
    to.to().end();
}

void write_fill(recorder& to, const driver_call& call, CUdeviceptr target, std::uint64_t bytes, CUstream handle,
                bool is_sync, std::uint64_t rows = 1, std::uint64_t pitch = 0) {
    const std::uint64_t stream = to.stream(call, handle);
    to.begin("fill");
    to.to().number("stream", stream);
    to.to().number("to", target);
    to.to().number("bytes", bytes);
    if (rows != 1) {
        to.to().number("rows", rows);
        to.to().number("to_pitch", std::max(pitch, bytes));
    }
    if (is_sync) to.to().yes("sync");
    to.to().end();
}

void write_rows(recorder& to, const driver_call& call, const CUDA_MEMCPY3D& from, CUstream handle, bool is_sync) {
    if (from.Depth > most_slices) to.unseen_once("copies of more than 1024 slices");
    const std::uint64_t stream = to.stream(call, handle);
    for (std::uint64_t slice = 0; slice < std::min<std::uint64_t>(from.Depth, most_slices); ++slice) {
        to.begin("copy");
        to.to().number("stream", stream);
        if (!copied_rows(from, slice, to.to(), "kind")) return to.unseen_once("copies of CUDA arrays");
        if (is_sync) to.to().yes("sync");
        to.to().end();
    }
}

CUDA_MEMCPY3D slices_of(const CUDA_MEMCPY2D& from) {
    CUDA_MEMCPY3D made{};
    made.srcXInBytes = from.srcXInBytes;
    made.srcY = from.srcY;
    made.srcMemoryType = from.srcMemoryType;
    made.srcHost = from.srcHost;
    made.srcDevice = from.srcDevice;
    made.srcPitch = from.srcPitch;
    made.dstXInBytes = from.dstXInBytes;
    made.dstY = from.dstY;
    made.dstMemoryType = from.dstMemoryType;
    made.dstHost = from.dstHost;
    made.dstDevice = from.dstDevice;
    made.dstPitch = from.dstPitch;
    made.WidthInBytes = from.WidthInBytes;
    made.Height = from.Height;
    made.Depth = 1;
    return made;
}

// The parameters of calls of one kind have the same names.
template <typename Params, bool is_sync>
void write_memcpy(recorder& to, const driver_call& call) {
    const auto& with = call.as<Params>();
    CUstream stream = nullptr;
    if constexpr (requires { with.hStream; }) stream = with.hStream;
    if constexpr (requires { with.srcHost; })
        write_copy(to, call, with.dstDevice, number_of(with.srcHost), with.ByteCount, "to_device", stream, is_sync);
    else if constexpr (requires { with.dstHost; })
        write_copy(to, call, number_of(with.dstHost), with.srcDevice, with.ByteCount, "to_host", stream, is_sync);
    else if constexpr (requires { with.dstDevice; })
        write_copy(to, call, with.dstDevice, with.srcDevice, with.ByteCount, "on_device", stream, is_sync);
    else
        write_copy(to, call, number_of(with.dst), number_of(with.src), with.ByteCount, "by_address", stream, is_sync);
}

template <typename Params, bool is_sync, unsigned size>
void write_memset(recorder& to, const driver_call& call) {
    const auto& with = call.as<Params>();
    CUstream stream = nullptr;
    if constexpr (requires { with.hStream; }) stream = with.hStream;
    if constexpr (requires { with.N; })
        write_fill(to, call, with.dstDevice, size * with.N, stream, is_sync);
    else
        write_fill(to, call, with.dstDevice, size * with.Width, stream, is_sync, with.Height, with.dstPitch);
}

template <typename Params, bool is_sync>
void write_slices(recorder& to, const driver_call& call) {
    const auto& with = call.as<Params>();
    CUstream stream = nullptr;
    if constexpr (requires { with.hStream; }) stream = with.hStream;
    if constexpr (requires { with.pCopy->Depth; })
        write_rows(to, call, *with.pCopy, stream, is_sync);
    else
        write_rows(to, call, slices_of(*with.pCopy), stream, is_sync);
}

// Each copy of a batch as one of its own.
template <typename Params>
void write_batch(recorder& to, const driver_call& call) {
    const auto& with = call.as<Params>();
    for (std::size_t i = 0; i < with.count; ++i)
        write_copy(to, call, number_of(with.dsts[i]), number_of(with.srcs[i]), with.sizes[i], "by_address",
                   with.hStream, false);
}

}  // namespace

bool copied_rows(const CUDA_MEMCPY3D& from, std::uint64_t slice, trace_writer& to, const char* kind_key) {
    const auto is_plain = [](CUmemorytype type) {
        return type == CU_MEMORYTYPE_HOST || type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED;
    };
    if (!is_plain(from.srcMemoryType) || !is_plain(from.dstMemoryType)) return false;
    const bool from_host = from.srcMemoryType == CU_MEMORYTYPE_HOST, to_host = from.dstMemoryType == CU_MEMORYTYPE_HOST;
    const std::uint64_t width = from.WidthInBytes;
    const std::uint64_t from_pitch = std::max<std::uint64_t>(from.srcPitch, width);
    const std::uint64_t to_pitch = std::max<std::uint64_t>(from.dstPitch, width);
    const std::uint64_t source = from_host ? number_of(from.srcHost) : from.srcDevice;
    const std::uint64_t target = to_host ? number_of(from.dstHost) : from.dstDevice;
    to.number("from", source + ((from.srcZ + slice) * from.srcHeight + from.srcY) * from_pitch + from.srcXInBytes);
    to.number("to", target + ((from.dstZ + slice) * from.dstHeight + from.dstY) * to_pitch + from.dstXInBytes);
    to.number("bytes", width);
    to.number("rows", from.Height);
    to.number("from_pitch", from_pitch);
    to.number("to_pitch", to_pitch);
    const bool is_known = from.srcMemoryType != CU_MEMORYTYPE_UNIFIED && from.dstMemoryType != CU_MEMORYTYPE_UNIFIED;
    const char* const known = from_host ? (to_host ? "on_host" : "to_device") : (to_host ? "to_host" : "on_device");
    to.text(kind_key, is_known ? known : "by_address");
    return true;
}

std::vector<handler> copy_handlers() {
    return {
        {"cuMemcpyHtoD_v2", write_memcpy<cuMemcpyHtoD_v2_params, true>},
        {"cuMemcpyDtoH_v2", write_memcpy<cuMemcpyDtoH_v2_params, true>},
        {"cuMemcpyDtoD_v2", write_memcpy<cuMemcpyDtoD_v2_params, true>},
        {"cuMemcpy", write_memcpy<cuMemcpy_params, true>},
        {"cuMemcpyPeer", write_memcpy<cuMemcpyPeer_params, true>},
        {"cuMemcpyHtoDAsync_v2", write_memcpy<cuMemcpyHtoDAsync_v2_params, false>},
        {"cuMemcpyDtoHAsync_v2", write_memcpy<cuMemcpyDtoHAsync_v2_params, false>},
        {"cuMemcpyDtoDAsync_v2", write_memcpy<cuMemcpyDtoDAsync_v2_params, false>},
        {"cuMemcpyAsync", write_memcpy<cuMemcpyAsync_params, false>},
        {"cuMemcpyPeerAsync", write_memcpy<cuMemcpyPeerAsync_params, false>},
        {"cuMemcpy2D_v2", write_slices<cuMemcpy2D_v2_params, true>},
        {"cuMemcpy2DUnaligned_v2", write_slices<cuMemcpy2DUnaligned_v2_params, true>},
        {"cuMemcpy3D_v2", write_slices<cuMemcpy3D_v2_params, true>},
        {"cuMemcpy2DAsync_v2", write_slices<cuMemcpy2DAsync_v2_params, false>},
        {"cuMemcpy3DAsync_v2", write_slices<cuMemcpy3DAsync_v2_params, false>},
        {"cuMemsetD8_v2", write_memset<cuMemsetD8_v2_params, true, 1>},
        {"cuMemsetD16_v2", write_memset<cuMemsetD16_v2_params, true, 2>},
        {"cuMemsetD32_v2", write_memset<cuMemsetD32_v2_params, true, 4>},
        {"cuMemsetD2D8_v2", write_memset<cuMemsetD2D8_v2_params, true, 1>},
        {"cuMemsetD2D16_v2", write_memset<cuMemsetD2D16_v2_params, true, 2>},
        {"cuMemsetD2D32_v2", write_memset<cuMemsetD2D32_v2_params, true, 4>},
        {"cuMemsetD8Async", write_memset<cuMemsetD8Async_params, false, 1>},
        {"cuMemsetD16Async", write_memset<cuMemsetD16Async_params, false, 2>},
        {"cuMemsetD32Async", write_memset<cuMemsetD32Async_params, false, 4>},
        {"cuMemsetD2D8Async", write_memset<cuMemsetD2D8Async_params, false, 1>},
        {"cuMemsetD2D16Async", write_memset<cuMemsetD2D16Async_params, false, 2>},
        {"cuMemsetD2D32Async", write_memset<cuMemsetD2D32Async_params, false, 4>},
        {"cuMemcpyBatchAsync", write_batch<cuMemcpyBatchAsync_params>, false, handler::failures::refused_in_capture},
#if CUDA_VERSION >= 13000
        {"cuMemcpyBatchAsync_v2", write_batch<cuMemcpyBatchAsync_v2_params>, false,
         handler::failures::refused_in_capture},
#else
        {"cuMemcpyBatchAsync_v2"},
#endif
        {"cuMemcpy3DBatchAsync"},
        {"cuMemcpy3DBatchAsync_v2"},
        {"cuMemcpy3DPeer"},
        {"cuMemcpy3DPeerAsync"},
        {"cuMemcpyHtoA_v2"},
        {"cuMemcpyAtoH_v2"},
        {"cuMemcpyHtoAAsync_v2"},
        {"cuMemcpyAtoHAsync_v2"},
        {"cuMemPrefetchAsync"},
        {"cuMemPrefetchAsync_v2"},
    };
}

}  // namespace sluice::check

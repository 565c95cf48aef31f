// SPDX-License-Identifier: Apache-2.0
#include "serve/grpc/region_messages.hpp"

#include <cstdint>
#include <cstring>
#include <string>

#include "serve/region_checks.hpp"
#include "serve/shared_tensors.hpp"
#include "sluice/serve/refusal.hpp"

namespace sluice::serve {
namespace {

shared_regions& require(shared_regions* regions, region_kind kind) {
    if (regions != nullptr && regions->allows(kind)) return *regions;
    throw refusal(refusal_kind::forbidden, kind == region_kind::cuda ? why_no_cuda_memory : why_no_shared_memory);
}

void remove(shared_regions& from, region_kind kind, const std::string& name) {
    if (name.empty())
        from.remove_all(kind);
    else
        from.remove(kind, name);
}

void add(inference::SystemSharedMemoryStatusResponse& to, const system_region& each) {
    auto& made = (*to.mutable_regions())[each.name()];
    made.set_name(each.name());
    made.set_key(each.key());
    made.set_offset(each.offset());
    made.set_byte_size(each.bytes());
}

void add(inference::CudaSharedMemoryStatusResponse& to, const cuda_region& each) {
    auto& made = (*to.mutable_regions())[each.name()];
    made.set_name(each.name());
    made.set_device_id(static_cast<std::uint64_t>(each.device_id()));
    made.set_byte_size(each.bytes());
}

}  // namespace

void serve_regions(const inference::SystemSharedMemoryStatusRequest& request,
                   inference::SystemSharedMemoryStatusResponse& response, shared_regions* regions) {
    const shared_regions& its = require(regions, region_kind::system);
    if (!request.name().empty()) return add(response, *its.find_system(request.name()));
    for (const auto& each : its.all_system()) add(response, *each);
}

void serve_regions(const inference::SystemSharedMemoryRegisterRequest& request,
                   inference::SystemSharedMemoryRegisterResponse&, shared_regions* regions) {
    require(regions, region_kind::system).add(request.name(), request.key(), request.offset(), request.byte_size());
}

void serve_regions(const inference::SystemSharedMemoryUnregisterRequest& request,
                   inference::SystemSharedMemoryUnregisterResponse&, shared_regions* regions) {
    remove(require(regions, region_kind::system), region_kind::system, request.name());
}

void serve_regions(const inference::CudaSharedMemoryStatusRequest& request,
                   inference::CudaSharedMemoryStatusResponse& response, shared_regions* regions) {
    const shared_regions& its = require(regions, region_kind::cuda);
    if (!request.name().empty()) return add(response, *its.find_cuda(request.name()));
    for (const auto& each : its.all_cuda()) add(response, *each);
}

void serve_regions(const inference::CudaSharedMemoryRegisterRequest& request,
                   inference::CudaSharedMemoryRegisterResponse&, shared_regions* regions) {
    shared_regions& its = require(regions, region_kind::cuda);
    gpu_memory_handle handle{};
    if (request.raw_handle().size() != handle.size()) {
        refuse_region("'raw_handle' has " + std::to_string(request.raw_handle().size()) + " bytes; accepted are the " +
                      std::to_string(handle.size()) + " of a cudaIpcMemHandle_t");
    }
    std::memcpy(handle.data(), request.raw_handle().data(), handle.size());
    if (request.device_id() < 0)
        refuse_region("'device_id' is " + std::to_string(request.device_id()) + ", and no number of a GPU");
    its.add(request.name(), request.device_id(), handle, request.byte_size());
}

void serve_regions(const inference::CudaSharedMemoryUnregisterRequest& request,
                   inference::CudaSharedMemoryUnregisterResponse&, shared_regions* regions) {
    remove(require(regions, region_kind::cuda), region_kind::cuda, request.name());
}

}  // namespace sluice::serve

// SPDX-License-Identifier: Apache-2.0
// What the calls for memory that clients share with the server do with its regions, and their answers. `regions` is
// null where there are none. All throw refusal.
#pragma once

#include <inference.pb.h>
#include "sluice/serve/shared_regions.hpp"

namespace sluice::serve {

void serve_regions(const inference::SystemSharedMemoryStatusRequest& request,
                   inference::SystemSharedMemoryStatusResponse& response, shared_regions* regions);
void serve_regions(const inference::SystemSharedMemoryRegisterRequest& request,
                   inference::SystemSharedMemoryRegisterResponse& response, shared_regions* regions);
void serve_regions(const inference::SystemSharedMemoryUnregisterRequest& request,
                   inference::SystemSharedMemoryUnregisterResponse& response, shared_regions* regions);
void serve_regions(const inference::CudaSharedMemoryStatusRequest& request,
                   inference::CudaSharedMemoryStatusResponse& response, shared_regions* regions);
void serve_regions(const inference::CudaSharedMemoryRegisterRequest& request,
                   inference::CudaSharedMemoryRegisterResponse& response, shared_regions* regions);
void serve_regions(const inference::CudaSharedMemoryUnregisterRequest& request,
                   inference::CudaSharedMemoryUnregisterResponse& response, shared_regions* regions);

}  // namespace sluice::serve

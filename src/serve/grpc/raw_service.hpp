// SPDX-License-Identifier: Apache-2.0
// The service with all methods raw: gRPC gives the bytes of a message, and parses none.
#pragma once

#include <inference.grpc.pb.h>

namespace sluice::serve {

namespace raw {

using service = inference::GRPCInferenceService;
using live = service::WithRawMethod_ServerLive<service::Service>;
using ready = service::WithRawMethod_ServerReady<live>;
using model_ready = service::WithRawMethod_ModelReady<ready>;
using metadata = service::WithRawMethod_ServerMetadata<model_ready>;
using model_metadata = service::WithRawMethod_ModelMetadata<metadata>;
using infer = service::WithRawMethod_ModelInfer<model_metadata>;
using stream_infer = service::WithRawMethod_ModelStreamInfer<infer>;
using config = service::WithRawMethod_ModelConfig<stream_infer>;
using statistics = service::WithRawMethod_ModelStatistics<config>;
using index = service::WithRawMethod_RepositoryIndex<statistics>;
using load = service::WithRawMethod_RepositoryModelLoad<index>;
using unload = service::WithRawMethod_RepositoryModelUnload<load>;
using memory_status = service::WithRawMethod_SystemSharedMemoryStatus<unload>;
using memory_register = service::WithRawMethod_SystemSharedMemoryRegister<memory_status>;
using memory_unregister = service::WithRawMethod_SystemSharedMemoryUnregister<memory_register>;
using cuda_status = service::WithRawMethod_CudaSharedMemoryStatus<memory_unregister>;
using cuda_register = service::WithRawMethod_CudaSharedMemoryRegister<cuda_status>;
using cuda_unregister = service::WithRawMethod_CudaSharedMemoryUnregister<cuda_register>;

}  // namespace raw

using raw_service = raw::cuda_unregister;

}  // namespace sluice::serve

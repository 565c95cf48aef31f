// All of Sluice's operations and its runtime. Kernels of the library (gemm, softmax ...) and the parts for
// networks have headers of their own in kernels/ and nn/.
#pragma once

#include "sluice/op/any_operation.hpp"
#include "sluice/op/named.hpp"
#include "sluice/op/operation.hpp"
#include "sluice/op/share.hpp"
#include "sluice/op/shared.hpp"
#include "sluice/op/value.hpp"
#include "sluice/op/with_context.hpp"
#include "sluice/op/zip.hpp"
#include "sluice/runtime/copy.hpp"
#include "sluice/runtime/device_future.hpp"
#include "sluice/runtime/event.hpp"
#include "sluice/runtime/launch.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/runtime/trace.hpp"
#include "sluice/runtime/trace_recorder.hpp"
#include "sluice/runtime/transfer.hpp"

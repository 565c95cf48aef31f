// SPDX-License-Identifier: Apache-2.0
// Calls that order: streams, events, captures, and waits of the host.
#include "check/inject/recorder.hpp"

namespace sluice::check {
namespace {

void write_stream(recorder& to, const driver_call& call, const char* op, CUstream handle) {
    const std::uint64_t stream = to.stream(call, handle);
    to.begin(op);
    to.to().number("stream", stream);
    to.to().end();
}

void write_event(recorder& to, const char* op, CUevent handle) {
    const std::uint64_t event = to.event(handle);
    to.begin(op);
    to.to().number("event", event);
    to.to().end();
}

void write_event_on(recorder& to, const driver_call& call, const char* op, CUevent handle, CUstream on) {
    const std::uint64_t event = to.event(handle), stream = to.stream(call, on);
    to.begin(op);
    to.to().number("event", event);
    to.to().number("stream", stream);
    to.to().end();
}

void write_device_sync(recorder& to, CUcontext context) {
    const std::uint64_t device = to.device(context);
    to.begin("device_sync");
    to.to().number("device", device);
    to.to().end();
    to.to().flush();
}

template <typename Params>
void write_capture_begin(recorder& to, const driver_call& call) {
    if (!call.has_failed) write_stream(to, call, "capture_begin", call.as<Params>().hStream);
}

// A capture that fails is written too: its work is lost.
void write_capture_end(recorder& to, const driver_call& call) {
    const auto& with = call.as<cuStreamEndCapture_params>();
    const std::uint64_t stream = to.stream(call, with.hStream);
    const std::uint64_t graph = call.has_failed ? 0 : to.new_graph(*with.phGraph);
    to.begin("capture_end");
    to.to().number("stream", stream);
    to.to().number("graph", graph);
    if (call.has_failed) to.to().yes("failed");
    to.to().end();
}

}  // namespace

std::vector<handler> order_handlers() {
    using R = recorder;
    using C = driver_call;
    return {
        {"cuEventRecord",
         [](R& to, const C& call) {
             const auto& with = call.as<cuEventRecord_params>();
             write_event_on(to, call, "record", with.hEvent, with.hStream);
         }},
        {"cuEventRecordWithFlags",
         [](R& to, const C& call) {
             const auto& with = call.as<cuEventRecordWithFlags_params>();
             write_event_on(to, call, "record", with.hEvent, with.hStream);
         }},
        {"cuStreamWaitEvent",
         [](R& to, const C& call) {
             const auto& with = call.as<cuStreamWaitEvent_params>();
             write_event_on(to, call, "wait", with.hEvent, with.hStream);
         }},
        {"cuEventSynchronize",
         [](R& to, const C& call) {
             write_event(to, "event_sync", call.as<cuEventSynchronize_params>().hEvent);
             to.to().flush();
         }},
        {"cuEventQuery",
         [](R& to, const C& call) { write_event(to, "event_done", call.as<cuEventQuery_params>().hEvent); }},
        {"cuEventDestroy_v2",
         [](R& to, const C& call) {
             write_event(to, "event_destroy", call.as<cuEventDestroy_v2_params>().hEvent);
             to.forget(call.as<cuEventDestroy_v2_params>().hEvent);
         },
         true},
        {"cuStreamQuery",
         [](R& to, const C& call) { write_stream(to, call, "stream_done", call.as<cuStreamQuery_params>().hStream); }},
        {"cuStreamSynchronize",
         [](R& to, const C& call) {
             write_stream(to, call, "stream_sync", call.as<cuStreamSynchronize_params>().hStream);
             to.to().flush();
         }},
        {"cuStreamDestroy_v2",
         [](R& to, const C& call) {
             write_stream(to, call, "stream_destroy", call.as<cuStreamDestroy_v2_params>().hStream);
             to.forget_stream(call.as<cuStreamDestroy_v2_params>().hStream);
         },
         true},
        {"cuStreamCreate",
         [](R& to, const C& call) {
             const auto& with = call.as<cuStreamCreate_params>();
             to.add_stream(call, *with.phStream, with.Flags);
         }},
        {"cuStreamCreateWithPriority",
         [](R& to, const C& call) {
             const auto& with = call.as<cuStreamCreateWithPriority_params>();
             to.add_stream(call, *with.phStream, with.flags);
         }},
        {"cuCtxSynchronize", [](R& to, const C& call) { write_device_sync(to, call.context); }},
#if CUDA_VERSION >= 13000
        {"cuCtxSynchronize_v2",
         [](R& to, const C& call) {
             const CUcontext of = call.as<cuCtxSynchronize_v2_params>().ctx;
             write_device_sync(to, of == nullptr ? call.context : of);
         }},
#else
        {"cuCtxSynchronize_v2"},
#endif
        {"cuStreamBeginCapture", write_capture_begin<cuStreamBeginCapture_params>},
        {"cuStreamBeginCapture_v2", write_capture_begin<cuStreamBeginCapture_v2_params>},
        {"cuStreamEndCapture", write_capture_end, false, handler::failures::all},
        {"cuStreamBeginCaptureToGraph",
         [](R& to, const C& call) {
             to.unseen_once("nodes that a graph had before a capture to it");
             write_capture_begin<cuStreamBeginCaptureToGraph_params>(to, call);
         }},
        {"cuStreamUpdateCaptureDependencies"},
        {"cuStreamUpdateCaptureDependencies_v2"},
        {"cuStreamWaitValue32_v2"},
        {"cuStreamWaitValue64_v2"},
        {"cuStreamWriteValue32_v2"},
        {"cuStreamWriteValue64_v2"},
        {"cuStreamBatchMemOp_v2"},
        {"cuSignalExternalSemaphoresAsync"},
        {"cuWaitExternalSemaphoresAsync"},
        {"cuIpcOpenEventHandle"},
        {"cuIpcOpenMemHandle_v2"},
    };
}

}  // namespace sluice::check

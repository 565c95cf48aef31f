// SPDX-License-Identifier: Apache-2.0
// Calls that allocate and free.
#include "check/inject/recorder.hpp"

namespace sluice::check {
namespace {

void write_alloc(recorder& to, const driver_call& call, std::uint64_t at, std::uint64_t bytes, const char* where) {
    const std::uint64_t device = to.device(call.context);
    to.begin("alloc");
    to.to().number("at", at);
    to.to().number("bytes", bytes);
    to.to().text("where", where);
    to.to().number("device", device);
    to.to().end();
}

void write_free(recorder& to, std::uint64_t at) {
    if (at == 0) return;
    to.begin("free");
    to.to().number("at", at);
    to.to().end();
}

void write_ordered(recorder& to, const driver_call& call, const char* op, CUdeviceptr at, std::uint64_t bytes,
                   CUstream handle) {
    if (at == 0) return;
    const std::uint64_t stream = to.stream(call, handle);
    to.begin(op);
    to.to().number("at", at);
    to.to().number("stream", stream);
    if (bytes != 0) to.to().number("bytes", bytes);
    to.to().end();
}

// A variable of a module: it is there as long as the module.
void write_global(recorder& to, const driver_call& call, const CUdeviceptr* at, const std::size_t* bytes) {
    if (at != nullptr && bytes != nullptr && to.is_new_global(*at)) write_alloc(to, call, *at, *bytes, "device");
}

}  // namespace

std::vector<handler> memory_handlers() {
    using R = recorder;
    using C = driver_call;
    return {
        {"cuMemAlloc_v2",
         [](R& to, const C& call) {
             const auto& with = call.as<cuMemAlloc_v2_params>();
             write_alloc(to, call, *with.dptr, with.bytesize, "device");
         }},
        {"cuMemAllocPitch_v2",
         [](R& to, const C& call) {
             const auto& with = call.as<cuMemAllocPitch_v2_params>();
             write_alloc(to, call, *with.dptr, *with.pPitch * with.Height, "device");
         }},
        {"cuMemAllocManaged",
         [](R& to, const C& call) {
             const auto& with = call.as<cuMemAllocManaged_params>();
             write_alloc(to, call, *with.dptr, with.bytesize, "managed");
         }},
        {"cuMemHostAlloc",
         [](R& to, const C& call) {
             const auto& with = call.as<cuMemHostAlloc_params>();
             write_alloc(to, call, number_of(*with.pp), with.bytesize, "pinned");
         }},
        {"cuMemAllocHost_v2",
         [](R& to, const C& call) {
             const auto& with = call.as<cuMemAllocHost_v2_params>();
             write_alloc(to, call, number_of(*with.pp), with.bytesize, "pinned");
         }},
        {"cuMemHostRegister_v2",
         [](R& to, const C& call) {
             const auto& with = call.as<cuMemHostRegister_v2_params>();
             write_alloc(to, call, number_of(with.p), with.bytesize, "pinned");
         }},
        {"cuMemMap",
         [](R& to, const C& call) {
             const auto& with = call.as<cuMemMap_params>();
             write_alloc(to, call, with.ptr, with.size, "device");
         }},
        {"cuModuleGetGlobal_v2",
         [](R& to, const C& call) {
             const auto& with = call.as<cuModuleGetGlobal_v2_params>();
             write_global(to, call, with.dptr, with.bytes);
         }},
        {"cuLibraryGetGlobal",
         [](R& to, const C& call) {
             const auto& with = call.as<cuLibraryGetGlobal_params>();
             write_global(to, call, with.dptr, with.bytes);
         }},
        {"cuMemAllocAsync",
         [](R& to, const C& call) {
             const auto& with = call.as<cuMemAllocAsync_params>();
             write_ordered(to, call, "alloc", *with.dptr, with.bytesize, with.hStream);
         }},
        {"cuMemAllocFromPoolAsync",
         [](R& to, const C& call) {
             const auto& with = call.as<cuMemAllocFromPoolAsync_params>();
             write_ordered(to, call, "alloc", *with.dptr, with.bytesize, with.hStream);
         }},
        {"cuMemFreeAsync",
         [](R& to, const C& call) {
             const auto& with = call.as<cuMemFreeAsync_params>();
             write_ordered(to, call, "free", with.dptr, 0, with.hStream);
         },
         true},
        {"cuMemFree_v2", [](R& to, const C& call) { write_free(to, call.as<cuMemFree_v2_params>().dptr); }, true},
        {"cuMemFreeHost", [](R& to, const C& call) { write_free(to, number_of(call.as<cuMemFreeHost_params>().p)); },
         true},
        {"cuMemHostUnregister",
         [](R& to, const C& call) { write_free(to, number_of(call.as<cuMemHostUnregister_params>().p)); }, true},
        {"cuMemUnmap", [](R& to, const C& call) { write_free(to, call.as<cuMemUnmap_params>().ptr); }, true},
    };
}

}  // namespace sluice::check

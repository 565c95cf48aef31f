// SPDX-License-Identifier: Apache-2.0
// Calls that load and launch kernels, and launch functions of the host.
#include "check/inject/recorder.hpp"

namespace sluice::check {
namespace {

void write_kernel(recorder& to, const driver_call& call, CUfunction handle, CUstream on, void* const* values,
                  void* const* extra) {
    const std::uint64_t stream = to.stream(call, on), kernel = to.kernel(call, handle);
    to.begin("kernel");
    to.to().number("stream", stream);
    to.to().number("function", kernel);
    to.arguments(handle, values, extra);
    to.to().end();
}

void write_host_function(recorder& to, const driver_call& call, CUstream on) {
    const std::uint64_t stream = to.stream(call, on);
    to.begin("host_func");
    to.to().number("stream", stream);
    to.to().end();
}

}  // namespace

std::vector<handler> launch_handlers() {
    using R = recorder;
    using C = driver_call;
    return {
        {"cuLaunchKernel",
         [](R& to, const C& call) {
             const auto& with = call.as<cuLaunchKernel_params>();
             write_kernel(to, call, with.f, with.hStream, with.kernelParams, with.extra);
         }},
        {"cuLaunchKernelEx",
         [](R& to, const C& call) {
             const auto& with = call.as<cuLaunchKernelEx_params>();
             write_kernel(to, call, with.f, with.config->hStream, with.kernelParams, with.extra);
         }},
        {"cuLaunchCooperativeKernel",
         [](R& to, const C& call) {
             const auto& with = call.as<cuLaunchCooperativeKernel_params>();
             write_kernel(to, call, with.f, with.hStream, with.kernelParams, nullptr);
         }},
        {"cuLaunchHostFunc",
         [](R& to, const C& call) { write_host_function(to, call, call.as<cuLaunchHostFunc_params>().hStream); }},
        {"cuStreamAddCallback",
         [](R& to, const C& call) { write_host_function(to, call, call.as<cuStreamAddCallback_params>().hStream); }},
        {"cuModuleLoadData", [](R& to, const C& call) { to.read_ptx(call.as<cuModuleLoadData_params>().image); }},
        {"cuModuleLoadDataEx", [](R& to, const C& call) { to.read_ptx(call.as<cuModuleLoadDataEx_params>().image); }},
        {"cuLibraryLoadData", [](R& to, const C& call) { to.read_ptx(call.as<cuLibraryLoadData_params>().code); }},
        {"cuLaunch"},
        {"cuLaunchGrid"},
        {"cuLaunchGridAsync"},
        {"cuLaunchCooperativeKernelMultiDevice"},
    };
}

}  // namespace sluice::check

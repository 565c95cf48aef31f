// SPDX-License-Identifier: Apache-2.0
#include "check/inject/recorder.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>

#include "check/inject/driver.hpp"

namespace sluice::check {
namespace {

// The runtime launches kernels of libraries (CUkernel) as functions, so a handle may be either.
CUkernel as_kernel(CUfunction handle) { return reinterpret_cast<CUkernel>(handle); }

const char* name_of(CUfunction handle) {
    const char* name = nullptr;
    const driver_functions& with = driver();
    if (with.function_name != nullptr && with.function_name(&name, handle) == CUDA_SUCCESS) return name;
    if (with.kernel_name != nullptr && with.kernel_name(&name, as_kernel(handle)) == CUDA_SUCCESS) return name;
    return nullptr;
}

// Offset and size of each.
std::vector<std::pair<std::size_t, std::size_t>> parameters_of(CUfunction handle) {
    std::vector<std::pair<std::size_t, std::size_t>> all;
    std::size_t offset = 0, size = 0;
    const driver_functions& with = driver();
    while (with.parameter != nullptr && with.parameter(handle, all.size(), &offset, &size) == CUDA_SUCCESS)
        all.emplace_back(offset, size);
    if (!all.empty() || with.kernel_parameter == nullptr) return all;
    while (with.kernel_parameter(as_kernel(handle), all.size(), &offset, &size) == CUDA_SUCCESS)
        all.emplace_back(offset, size);
    return all;
}

}  // namespace

std::uint64_t thread_number() noexcept {
    static std::atomic<std::uint64_t> last{0};
    thread_local const std::uint64_t mine = ++last;
    return mine;
}

recorder& recorder::instance() {
    static recorder* const only = new recorder;  // calls come until the process
                                                 // ends, after all destructors too
    return *only;
}

void recorder::begin(const char* op) {
    const std::uint64_t stack = writer_.stack();
    writer_.begin(op);
    writer_.number("thread", thread_number());
    writer_.number("stack", stack);
}

std::uint64_t recorder::device(CUcontext context) {
    const auto known = devices_.find(context);
    if (known != devices_.end()) return known->second;
    CUdevice device = 0;
    const relaxed_capture guard;
    if (driver().context_device != nullptr) driver().context_device(&device);
    return devices_[context] = static_cast<std::uint64_t>(device);
}

recorder::stream_key recorder::key_of(const driver_call& call, CUstream handle) {
    if (handle == CU_STREAM_PER_THREAD) return {call.context, handle, thread_number()};
    return {handle == CU_STREAM_LEGACY ? call.context : nullptr, handle, 0};
}

std::uint64_t recorder::declare(const driver_call& call, CUstream handle, unsigned flags) {
    const std::uint64_t in = device(call.context);
    const bool waits = (flags & CU_STREAM_NON_BLOCKING) == 0;
    writer_.begin("stream");
    writer_.number("stream", ++last_);
    writer_.number("device", in);
    writer_.text("kind", handle == CU_STREAM_LEGACY ? "legacy" : waits ? "blocking" : "non_blocking");
    writer_.end();
    return streams_[key_of(call, handle)] = last_;
}

void recorder::add_stream(const driver_call& call, CUstream handle, unsigned flags) { declare(call, handle, flags); }

std::uint64_t recorder::stream(const driver_call& call, CUstream handle) {
    if (handle == nullptr) handle = call.is_per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
    const auto known = streams_.find(key_of(call, handle));
    if (known != streams_.end()) return known->second;
    unsigned flags = 0;
    const bool is_made = handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD;
    if (is_made && driver().stream_flags != nullptr) {
        const relaxed_capture guard;
        driver().stream_flags(handle, &flags);
    }
    return declare(call, handle, flags);
}

// What was made by a call that is not followed is empty in the trace.
std::uint64_t recorder::graph(CUgraph handle) {
    if (const auto known = graphs_.find(handle); known != graphs_.end()) return known->second;
    unseen_once("graphs that were made by other calls, such as clones");
    const std::uint64_t made = new_graph(handle);
    writer_.begin("graph");
    writer_.number("graph", made);
    writer_.end();
    return made;
}

std::uint64_t recorder::exec(CUgraphExec handle) {
    if (const auto known = execs_.find(handle); known != execs_.end()) return known->second;
    const std::uint64_t empty = graph(nullptr), made = new_exec(handle);
    writer_.begin("instantiate");
    writer_.number("graph", empty);
    writer_.number("exec", made);
    writer_.end();
    return made;
}

std::uint64_t recorder::node(std::uint64_t graph, CUgraphNode handle) {
    if (const auto known = nodes_.find({graph, handle}); known != nodes_.end()) return known->second;
    unseen_once("nodes of graphs that were captured, when others follow them");
    const std::uint64_t made = new_node(graph, handle);
    writer_.begin("node");
    writer_.number("graph", graph);
    writer_.number("node", made);
    writer_.text("kind", "empty");
    writer_.end();
    return made;
}

void recorder::unseen(std::string_view name) {
    writer_.begin("unseen");
    writer_.text("name", name);
    writer_.end();
}

void recorder::unseen_once(std::string_view name) {
    if (reported_.emplace(name).second) unseen(name);
}

std::uint64_t recorder::kernel(const driver_call& call, CUfunction handle) {
    const char* name = call.kernel;
    const auto at = kernels_.find(handle);
    if (at != kernels_.end() && name != nullptr && at->second.mangled == name) return at->second.number;
    const relaxed_capture guard;
    if (name == nullptr) name = name_of(handle);
    if (name == nullptr) name = "?";
    known_kernel& known = kernels_[handle];
    if (known.number != 0 && known.mangled == name) return known.number;
    known = {};
    known.number = ++last_;
    known.mangled = name;
    known.parameters = parameters_of(handle);
    known.signature = signature_of(name, known.parameters.size());
    if (const auto proven = ptx_.find(known.mangled); proven != ptx_.end()) refine(known.signature, proven->second);
    writer_.begin("function");
    writer_.number("function", known.number);
    writer_.text("name", known.signature.name);
    writer_.end();
    for (const auto& each : known.parameters)
        if (each.second > sizeof(CUdeviceptr))
            unseen_once("structs among the arguments of kernels, which may have pointers");
    return known.number;
}

void recorder::read_ptx(const void* image) {
    const char* const text = static_cast<const char*>(image);
    if (!is_ptx(text)) return;
    for (auto& [name, accesses] : accesses_in_ptx(text)) {
        std::erase_if(kernels_, [&](const auto& each) { return each.second.mangled == name; });
        const auto [at, is_new] = ptx_.try_emplace(name, accesses);
        if (is_new) continue;
        // Two modules have a kernel of this name: only what both prove holds.
        std::vector<ptx_access>& known = at->second;
        if (known.size() != accesses.size()) known.clear();
        for (std::size_t i = 0; i < known.size(); ++i) known[i] = std::max(known[i], accesses[i]);
    }
}

void recorder::arguments(CUfunction handle, void* const* values, void* const* extra) {
    const known_kernel& known = kernels_[handle];
    const char* packed = nullptr;
    for (void* const* each = extra; each != nullptr && *each != CU_LAUNCH_PARAM_END; each += 2)
        if (*each == CU_LAUNCH_PARAM_BUFFER_POINTER) packed = static_cast<const char*>(each[1]);
    if (values == nullptr && packed == nullptr) return;
    writer_.begin_list("args");
    for (std::size_t i = 0; i < known.parameters.size(); ++i) {
        const parameter_kind kind = known.signature.parameters[i];
        if (kind == parameter_kind::no_pointer || known.parameters[i].second != sizeof(CUdeviceptr)) continue;
        CUdeviceptr at = 0;
        std::memcpy(&at, values != nullptr ? values[i] : packed + known.parameters[i].first, sizeof(at));
        if (at == 0) continue;
        writer_.begin_object();
        writer_.number("at", at);
        if (kind != parameter_kind::unknown)
            writer_.text("mode", kind == parameter_kind::const_pointer ? "read" : "writable");
        writer_.end_object();
    }
    writer_.end_list();
}

}  // namespace sluice::check

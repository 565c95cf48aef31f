// SPDX-License-Identifier: Apache-2.0
// The library that the CUDA driver loads when CUDA_INJECTION64_PATH names it.
// It subscribes to the calls of the driver at CUPTI; the calls of the runtime
// make those of the driver, also where the runtime is linked statically.
//
//   SLUICE_CHECK_TRACES    the folder for the trace, PID.trace
//   SLUICE_CHECK_CUPTI     the file of CUPTI, where the system's loader does
//   not find it
#include <cupti.h>
#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "check/inject/recorder.hpp"

namespace sluice::check {
namespace {

std::array<const handler*, CUPTI_DRIVER_TRACE_CBID_SIZE> handler_of{};
std::array<bool, CUPTI_DRIVER_TRACE_CBID_SIZE> is_per_thread{};

struct cupti {
    decltype(&cuptiSubscribe) subscribe;
    decltype(&cuptiEnableCallback) enable;
    decltype(&cuptiGetCallbackName) name;
    decltype(&cuptiGetResultString) words;
};

// The one that the program has loaded, or else the newest.
void* open_cupti() {
    if (const char* const named = std::getenv("SLUICE_CHECK_CUPTI")) return ::dlopen(named, RTLD_NOW);
    for (const int how : {RTLD_NOW | RTLD_NOLOAD, RTLD_NOW}) {
        for (const char* const each : {"libcupti.so.13", "libcupti.so.12", SLUICE_CUPTI_LIBRARY})
            if (void* const found = ::dlopen(each, how)) return found;
    }
    return nullptr;
}

bool load(cupti& to) {
    void* const library = open_cupti();
    if (library == nullptr) return false;
    to.subscribe = reinterpret_cast<decltype(to.subscribe)>(::dlsym(library, "cuptiSubscribe"));
    to.enable = reinterpret_cast<decltype(to.enable)>(::dlsym(library, "cuptiEnableCallback"));
    to.name = reinterpret_cast<decltype(to.name)>(::dlsym(library, "cuptiGetCallbackName"));
    to.words = reinterpret_cast<decltype(to.words)>(::dlsym(library, "cuptiGetResultString"));
    return to.subscribe != nullptr && to.enable != nullptr && to.name != nullptr && to.words != nullptr;
}

bool takes(handler::failures what, bool is_refused) {
    return what == handler::failures::all || (what == handler::failures::refused_in_capture && is_refused);
}

void CUPTIAPI on_call(void*, CUpti_CallbackDomain, CUpti_CallbackId id, const void* what) {
    const handler* const known = id < handler_of.size() ? handler_of[id] : nullptr;
    const auto& data = *static_cast<const CUpti_CallbackData*>(what);
    if (known == nullptr || (data.callbackSite == CUPTI_API_ENTER) != known->at_begin) return;
    driver_call call{data.functionParams, data.context, is_per_thread[id], false, data.symbolName};
    if (!known->at_begin) {
        const CUresult result = *static_cast<const CUresult*>(data.functionReturnValue);
        call.has_failed = result != CUDA_SUCCESS;
        const bool is_refused = result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        if (call.has_failed && !takes(known->takes, is_refused)) {
            if (result < CUDA_ERROR_ILLEGAL_ADDRESS) return;
            // The context is lost, and the program may end by a signal: what came before is written now.
            recorder& to = recorder::instance();
            const std::lock_guard guard(to.lock);
            to.to().flush();
            return;
        }
    }
    recorder& to = recorder::instance();
    const std::lock_guard guard(to.lock);
    known->record != nullptr ? known->record(to, call) : to.unseen(known->name);
    if (to.is_ending) to.to().flush();
}

// "cuMemcpyAsync_ptsz" is "cuMemcpyAsync" with the thread's default stream.
std::string plain_name(std::string name, bool& per_thread) {
    for (const char* const each : {"_ptsz", "_ptds"}) {
        if (!name.ends_with(each)) continue;
        per_thread = true;
        name.resize(name.size() - std::strlen(each));
    }
    return name;
}

void enable_all(const cupti& with, CUpti_SubscriberHandle subscriber) {
    static auto& all = *new std::vector<handler>;  // calls come after all destructors, too
    for (auto* const each : {memory_handlers, copy_handlers, order_handlers, launch_handlers, graph_handlers}) {
        const std::vector<handler> some = each();
        all.insert(all.end(), some.begin(), some.end());
    }
    for (CUpti_CallbackId id = 1; id < handler_of.size(); ++id) {
        const char* name = nullptr;
        if (with.name(CUPTI_CB_DOMAIN_DRIVER_API, id, &name) != CUPTI_SUCCESS || name == nullptr) continue;
        const std::string plain = plain_name(name, is_per_thread[id]);
        for (const handler& each : all)
            if (plain == each.name) handler_of[id] = &each;
        if (handler_of[id] != nullptr) with.enable(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, id);
    }
}

std::string command_line() {
    std::string text(4096, '\0');
    FILE* const from = std::fopen("/proc/self/cmdline", "rb");
    if (from == nullptr) return {};
    text.resize(std::fread(text.data(), 1, text.size(), from));
    std::fclose(from);
    for (char& each : text)
        if (each == '\0') each = ' ';
    while (!text.empty() && text.back() == ' ') text.pop_back();
    return text;
}

void write_header(trace_writer& to, const char* refused) {
    to.begin_header();
    to.number("sluice_check_trace", 1);
    to.text("program", command_line());
    if (refused != nullptr) to.text("refused", refused);
    to.end();
    to.flush();
}

void start() {
    const char* const folder = std::getenv("SLUICE_CHECK_TRACES");
    if (folder == nullptr) return;
    recorder& to = recorder::instance();
    if (!to.to().open(std::string(folder) + "/" + std::to_string(::getpid()) + ".trace")) return;
    cupti with{};
    if (!load(with))
        return write_header(to.to(),
                            "CUPTI is not there: libcupti.so.13 or 12 "
                            "(SLUICE_CHECK_CUPTI names its file)");
    CUpti_SubscriberHandle subscriber{};
    const CUptiResult subscribed = with.subscribe(&subscriber, on_call, nullptr);
    if (subscribed != CUPTI_SUCCESS) {
        const char* words = "?";
        with.words(subscribed, &words);
        const std::string why = std::string("CUPTI refuses (") + words + "): a profiler or debugger may be present";
        return write_header(to.to(), why.c_str());
    }
    write_header(to.to(), nullptr);
    enable_all(with, subscriber);
    std::atexit([] {
        recorder& ended = recorder::instance();
        if (!ended.to().is_owner()) return;  // a forked child, where another thread may have had the lock
        const std::lock_guard guard(ended.lock);
        ended.is_ending = true;
        ended.to().flush();
    });
}

}  // namespace
}  // namespace sluice::check

extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
    sluice::check::start();
    return 1;
}

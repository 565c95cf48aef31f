// SPDX-License-Identifier: Apache-2.0
// recorder: writes the calls of the CUDA driver that this process makes as the
// lines of a trace.
//
// Thread safety: handlers run under the recorder's lock, one at a time.
#pragma once

#include <cuda.h>
#include <cupti.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "check/inject/kernel_signature.hpp"
#include "check/inject/ptx_accesses.hpp"
#include "check/inject/trace_writer.hpp"

namespace sluice::check {

inline std::uint64_t number_of(CUdeviceptr address) { return address; }

// One call of the driver, as CUPTI reports it.
struct driver_call {
    const void* params;
    CUcontext context;
    bool is_per_thread;  // the default stream is the thread's own
    bool has_failed;
    const char* kernel;  // the mangled name; null where there is none

    template <typename Params>
    const Params& as() const noexcept {
        return *static_cast<const Params*>(params);
    }
};

// What is known of a kernel.
struct known_kernel {
    std::uint64_t number = 0;
    std::string mangled;
    kernel_signature signature;
    std::vector<std::pair<std::size_t, std::size_t>> parameters;  // offset and size
};

class recorder {
public:
    static recorder& instance();

    // Begins a line: with the thread, and the stack of the call.
    void begin(const char* op);
    trace_writer& to() noexcept { return writer_; }

    // These write the line that declares it where it is new; not between begin()
    // and end().
    std::uint64_t stream(const driver_call& call, CUstream handle);
    std::uint64_t kernel(const driver_call& call, CUfunction handle);
    std::uint64_t event(CUevent handle) { return number_of(events_, handle); }
    std::uint64_t graph(CUgraph handle);
    std::uint64_t exec(CUgraphExec handle);
    std::uint64_t node(std::uint64_t graph, CUgraphNode handle);
    // One that is created now, perhaps with the handle of one before; its line follows.
    std::uint64_t new_graph(CUgraph handle) { return graphs_[handle] = ++last_; }
    std::uint64_t new_exec(CUgraphExec handle) { return execs_[handle] = ++last_; }
    std::uint64_t new_node(std::uint64_t graph, CUgraphNode handle) { return nodes_[{graph, handle}] = ++last_; }
    std::uint64_t device(CUcontext context);
    void unseen(std::string_view name);
    void unseen_once(std::string_view name);

    // The arguments of a launch, as the key "args".
    void arguments(CUfunction handle, void* const* values, void* const* extra);

    // The text of a module that is being loaded; other images are left out.
    void read_ptx(const void* image);

    void forget(CUevent handle) { events_.erase(handle); }
    void forget(CUgraph handle) { graphs_.erase(handle); }
    void forget(CUgraphExec handle) { execs_.erase(handle); }
    // A stream was created, perhaps with the handle of one before.
    void add_stream(const driver_call& call, CUstream handle, unsigned flags);
    void forget_stream(CUstream handle) { streams_.erase({nullptr, handle, 0}); }
    // True the first time.
    bool is_new_global(CUdeviceptr at) { return globals_.insert(at).second; }

    std::mutex lock;
    bool is_ending = false;  // the process: what comes now is written at once

private:
    using handles = std::unordered_map<const void*, std::uint64_t>;
    std::uint64_t number_of(handles& in, const void* handle) {
        const auto [at, is_new] = in.try_emplace(handle, last_ + 1);
        last_ += is_new ? 1 : 0;
        return at->second;
    }

    std::uint64_t declare(const driver_call& call, CUstream handle, unsigned flags);

    struct stream_key {
        CUcontext context;  // of a default stream
        CUstream handle;
        std::uint64_t thread;  // of a per-thread default stream
        auto operator<=>(const stream_key&) const = default;
    };
    static stream_key key_of(const driver_call& call, CUstream handle);

    trace_writer writer_;
    std::uint64_t last_ = 0;  // number that was given
    std::map<stream_key, std::uint64_t> streams_;
    handles events_, graphs_, execs_;
    std::map<std::pair<std::uint64_t, CUgraphNode>, std::uint64_t> nodes_;  // by graph
    std::unordered_map<CUfunction, known_kernel> kernels_;
    std::map<std::string, std::vector<ptx_access>, std::less<>> ptx_;  // by the names of kernels
    std::unordered_map<CUcontext, std::uint64_t> devices_;
    std::set<CUdeviceptr> globals_;
    std::set<std::string, std::less<>> reported_;
};

// The number of the calling thread, from 1.
std::uint64_t thread_number() noexcept;

// A handler of a call of the driver. Frees are recorded when they begin, as
// another thread may receive the memory before they end; all else when it has
// ended.
struct handler {
    const char* name;  // "cuMemAlloc_v2"; variants for per-thread default streams
                       // have the same
    void (*record)(recorder& to,
                   const driver_call& call) = nullptr;  // null: it is not followed
    bool at_begin = false;
    enum class failures : unsigned char { none, refused_in_capture, all } takes = failures::none;
};
std::vector<handler> memory_handlers();
std::vector<handler> copy_handlers();
std::vector<handler> order_handlers();
std::vector<handler> launch_handlers();
std::vector<handler> graph_handlers();

// The lines for rows of a copy, as keys of one line. False: it has arrays, and
// is not followed.
bool copied_rows(const CUDA_MEMCPY3D& from, std::uint64_t depth, trace_writer& to, const char* kind_key);

}  // namespace sluice::check

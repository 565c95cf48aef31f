// The waist: the commands, the only things a device is ever asked to do.
//
// Every command names the storage that it reads and the storage that it writes. From that alone come
// ordering across streams, safe freeing, graphs, race checking and traces; so nothing enqueues work behind
// the waist's back. (allocate and release are calls of stream and memory_pool: they move bookkeeping only,
// the storage's history is what orders the next user of the memory. record and wait are calls of
// stream_interpreter, made by stream when a conflict asks for them.)
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "sluice/runtime/source_location.hpp"
#include "sluice/runtime/ticket.hpp"

namespace sluice {

class device;
class storage;
class stream;
namespace detail {
class outcome;
}

enum class access_mode : unsigned char {
    read,
    write,  // may read as well
};

struct memory_access {
    storage* where;  // null, for a tensor without elements: nothing to order
    access_mode mode;
};

// What every command says of itself. Everything it points to outlives the call that submits it, not the
// command: interpreters copy what they keep. `name` must point to characters that live for ever.
struct command_info {
    std::string_view name;
    std::span<const memory_access> accesses = {};
    source_location where = {};  // the user's line; line 0 means unknown
    // Filled in by the stream, for interpreters: what the command hangs on, null for nothing; and the user's name for
    // the operation that it belongs to.
    detail::outcome* outcome = nullptr;
    std::string_view operation = {};
    // Whether it may name storage of other devices too, of the same runtime and kind: copies between devices, and
    // library calls that reach several. Without this, such storage is refused.
    bool spans_devices = false;
};

enum class copy_direction : unsigned char { host_to_device, device_to_host, device_to_device };

struct copy_command {
    void* destination;
    const void* source;
    std::size_t bytes;
    copy_direction direction;
    // Keeps the host memory, at `source` or `destination`, alive until the copy is done; empty when a storage does.
    std::shared_ptr<const void> host_owner = {};
    // The device whose memory `source` is, when it is another one.
    device* source_device = nullptr;
};

// Sets every byte to `value`.
struct fill_command {
    void* destination;
    unsigned char value;
    std::size_t bytes;
};

struct launch_extent {
    unsigned x = 1, y = 1, z = 1;
};

// A graph that a kernel may launch while it runs: what keeps it, and the memory that it works on. The launching command
// names that memory among its accesses.
struct launched_graph {
    std::shared_ptr<const void> owner;
    std::span<storage* const> memory;
};

// A kernel. The closure (kernel object and arguments, trivially copyable) is copied by the interpreter.
struct launch_command {
    // On a GPU: the __global__ function, which takes the closure as its only parameter; null when the
    // launching code was not compiled by nvcc.
    const void* device_function = nullptr;
    launch_extent grid = {};
    launch_extent block = {};
    std::size_t shared_bytes = 0;
    // On a CPU: runs the whole launch. Must not throw.
    void (*host_function)(const void* closure) = nullptr;
    const void* closure = nullptr;
    std::size_t closure_bytes = 0;
    // Programmatic dependent launch: the kernel may start before the kernel that it comes after has ended, and waits by
    // itself (dependency_wait) before it touches what that one makes. An ordinary launch where the device cannot.
    bool early_start = false;
    // Graphs that the kernel may launch. Only a recorder takes such a command: a kernel launches from inside a graph.
    std::span<const launched_graph> launches = {};
};

enum class device_kind : unsigned char { cpu, cuda };

// The stream as the backend knows it: for library calls and for mixing with other libraries.
struct native_stream {
    device_kind kind;
    void* handle;   // a cudaStream_t on cuda; null on cpu
    stream* owner;  // the Sluice stream
};

// A call into a library (cuBLAS, cuDNN, oneDNN ...). The closure is trivially copyable and copied by the
// interpreter. On cuda `call` runs at once, on the submitting thread, and enqueues on the native stream; on
// cpu it runs on a worker thread, in stream order. An exception thrown by it on the worker reaches whoever
// waits for the command.
struct library_command {
    void (*call)(const native_stream& on, const void* closure) = nullptr;
    const void* closure = nullptr;
    std::size_t closure_bytes = 0;
};

// Host code in stream order. It must not call Sluice or CUDA. It runs on a worker thread (cpu) or on a
// thread of the driver (cuda). An exception reaches whoever waits for the command.
struct host_command {
    std::function<void()> call;
};

}  // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// The waist: the commands. A device executes nothing else.
//
// Every command names the storage that it reads and the storage that it writes. Ordering across streams, safe freeing,
// graphs, race checking and traces follow from that alone; so no code enqueues work without a command. (Allocation and
// release are not commands: stream and memory_pool only move bookkeeping, and the storage's history orders the next
// user of the memory. Waits between streams are not commands either: command_queue calls
// stream_interpreter::order_after when it finds a conflict.)
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "sluice/base/source_location.hpp"
#include "sluice/runtime/ticket.hpp"

namespace sluice {

struct host_command;

class device;
class storage;
class stream;  // NOLINT(bugprone-forward-declaration-namespace): dnnl::stream is another class
namespace detail {
class outcome;
}

// How a command uses a storage that it names.
enum class access_mode : unsigned char {
    read,
    write,  // may read as well
};

// One storage that a command names.
struct memory_access {
    storage* memory;   // null for a tensor without elements: nothing to order
    access_mode mode;  // how the command uses it
};

// The description of a command. Everything it points to outlives the call that submits the command, but not the command
// itself: interpreters copy what they keep. `name` must point to characters that are never freed.
struct command_info {
    std::string_view name;                         // in errors and traces
    std::span<const memory_access> accesses = {};  // the memory that it uses
    source_location location = {};                 // the user's line; line 0 means unknown
    // The command_queue fills these in for interpreters: the outcome that the command depends on, or null; the user's
    // name for the operation that the command belongs to; and what may_fail says.
    detail::outcome* outcome = nullptr;
    std::string_view operation = {};  // empty without one
    bool may_fail = false;            // whether the outcome is the command's own, which the interpreter settles
    // Filled in too: whether the command belongs to an operation, after whose submission submit_kept() is called.
    bool of_operation = false;
    // Whether the command may also name storage of other devices of the same runtime and kind: copies between devices,
    // and library calls that use several. Without this flag such storage is refused.
    bool spans_devices = false;
};

// Which sides of a copy are device memory.
enum class copy_direction : unsigned char { host_to_device, device_to_host, device_to_device };

// The rows of a copy, from which the ends of longer rows are left out: sub-matrices.
struct copied_rows {
    std::size_t count = 1;              // 1: plain bytes
    std::size_t source_pitch = 0;       // bytes from the beginning of a row to that of the next one
    std::size_t destination_pitch = 0;  // the same at the destination
};

// Copies bytes, or rows of bytes.
struct copy_command {
    void* destination;         // the first byte that is written
    const void* source;        // the first byte that is read
    std::size_t bytes;         // of one row
    copy_direction direction;  // which sides are device memory
    // Keeps the host memory at `source` or `destination` alive until the copy is complete; empty when a storage does.
    std::shared_ptr<const void> host_owner = {};
    // The device that owns `source`, when that is another device.
    device* source_device = nullptr;
    copied_rows rows = {};  // one row unless given
};

// Sets every byte to `value`.
struct fill_command {
    void* destination;    // the first byte that is written
    unsigned char value;  // of each byte
    std::size_t bytes;    // how many
};

// A number along each of three dimensions: blocks of a grid, threads of a block.
struct launch_extent {
    unsigned x = 1, y = 1, z = 1;  // 1 where a dimension is not used

    friend bool operator==(const launch_extent&, const launch_extent&) = default;
};
std::string to_string(const launch_extent& size);  // "2 x 3 x 4"; costs O(1)

// A graph that a kernel may launch while it runs: the owner that keeps the graph alive, and the memory that it uses.
// The launching command names that memory among its accesses.
struct launched_graph {
    std::shared_ptr<const void> owner;  // of the graph
    std::span<storage* const> memory;   // all that the graph uses
};

// A function of a module that was loaded on a GPU at run time (sluice/cuda/kernel_module.hpp). A std::shared_ptr owns
// it. A stream shares it until the launch is complete, a graph as long as the graph may run. The destructor calls no
// driver and does not block.
struct loaded_function : std::enable_shared_from_this<loaded_function> {
    static constexpr std::size_t max_parameters = 128;  // of a function; a launch with more does not compile

    void* handle = nullptr;                     // the driver's: a CUfunction
    std::string_view name = {};                 // never freed
    std::string device = {};                    // the name of the GPU on which the module is loaded
    std::span<const std::size_t> offsets = {};  // of each parameter in the closure; never freed
    std::shared_ptr<const void> owner = {};     // keeps the module loaded
};

// A kernel. The closure (kernel object and arguments, trivially copyable) is copied by the interpreter.
struct launch_command {
    // On a GPU: the __global__ function, which takes the closure as its only parameter; null when nvcc did not compile
    // the launching code, and when `function` is launched instead.
    const void* device_function = nullptr;
    launch_extent grid = {};       // blocks
    launch_extent block = {};      // threads of a block
    std::size_t shared_bytes = 0;  // dynamic shared memory of a block
    // Thread block clusters: that many blocks, which divide the grid, run at the same time and share memory.
    launch_extent cluster = {};
    // Cooperative launch: all blocks run at the same time, so that they can wait for each other.
    bool cooperative = false;
    // On a CPU: runs the whole launch. Must not throw, unless the command may fail.
    void (*host_function)(const void* closure) = nullptr;
    const void* closure = nullptr;  // the kernel object and its arguments
    std::size_t closure_bytes = 0;  // of the closure, which is copied
    // Programmatic dependent launch: the kernel may start before the kernel that it comes after has ended. It calls
    // dependency_wait before it touches what that kernel writes. An ordinary launch on devices without this feature.
    bool early_start = false;
    // Whether host_function may throw, as kernels that check their bounds do (errc::out_of_range). Each waiter of the
    // command then receives the exception.
    bool may_fail = false;
    // Graphs that the kernel may launch. Only a recorder accepts such a command: a kernel launches from inside a graph.
    std::span<const launched_graph> launches = {};
    // Instead of device_function and host_function: a function of a module, each of whose parameters is a part of the
    // closure. Only the GPU on which the module is loaded accepts such a command. The caller keeps the function during
    // the call; an interpreter that keeps the command shares it.
    const loaded_function* function = nullptr;
};

// What a device is. Devices of one kind share a backend.
enum class device_kind : unsigned char { cpu, cuda };

// The stream in the backend's own type: for library calls and for use with other libraries.
struct native_stream {
    device_kind kind;      // of the device of the stream
    void* handle;          // a cudaStream_t on cuda; null on cpu
    command_queue* queue;  // of the Sluice stream
};

// A call into a library (cuBLAS, cuDNN, oneDNN ...). The closure is trivially copyable; the interpreter copies it. On
// cuda `call` runs during submission, on the submitting thread, and enqueues on the native stream. On cpu it runs on a
// worker thread, in stream order, and each waiter of the command receives an exception that it throws there.
struct library_command {
    void (*call)(const native_stream& on, const void* closure) = nullptr;  // the code to run
    const void* closure = nullptr;                                         // copied by the interpreter; its argument
    std::size_t closure_bytes = 0;                                         // of the closure
};

}  // namespace sluice

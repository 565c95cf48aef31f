// SPDX-License-Identifier: Apache-2.0
// Tensors and events between processes of one machine that use the same GPU (CUDA IPC), without a copy.
//
//     // one process                                           // another one
//     tensor<float> x = sync(work(), pool);
//     const cuda::exported_tensor shared = cuda::export_tensor(x);
//     send(shared.handle());                                   auto handle = receive<cuda::tensor_handle>();
//                                                              auto y = cuda::import_tensor<float>(gpu, handle);
//                                                              y = sync(more_work(std::move(y)), pool);
//     receive(done);                                           send(done);
//     x = sync(what_follows(std::move(x)), pool);
//
// A handle is a plain structure of bytes. The program sends it as it likes: over a pipe, a socket, a file. Several
// processes may import it. A process may import it again; tensors of one handle that exist at the same time have
// separate histories, so they are only read, or used in turns (adopt.hpp). The importing process does not see the
// exporting one's commands, and the other way round: the processes take turns, or all of them only read. A turn passes
// in one of two ways:
//   - the host waits for its own work (sync, get, co_await) and then notifies the other process, as above;
//   - through an interprocess_event, so that the GPU waits and the host does not. See there.
// export_tensor blocks until the contents are there, so the first turn needs no event.
//
// Lifetime. An exported_tensor keeps the memory, also when the tensor is dropped or an operation on it fails. It must
// live until every importing process has dropped its tensor and that process's last command on it is complete: CUDA
// does not notify this process, so the program does. When it is destroyed before, the pool hands the memory out again,
// and the other processes access what belongs to another tensor; what they access when the process has ended is
// undefined. The imported tensor is an adopted one (adopt.hpp): it may be dropped at any moment; the mapping is closed
// after the last command that uses it.
//
// The memory is that of a tensor on a GPU: Sluice's own, or adopted memory that plain cudaMalloc allocated. CUDA
// exports whole allocations, so the handle has the tensor's place inside. For the same reason the other process can
// also reach what lies in the same pages of the GPU (2 MiB): give handles only to processes that you trust with this
// process's data.
//
// A handle that arrives is checked before CUDA sees it. Not checked is who made it: accept handles only from processes
// that you trust.
//
// Errors. Export: errc::unsupported on a CPU device, and for memory that CUDA cannot export (cudaMallocAsync, virtual
// memory management, imported memory); errc::invalid_argument for a tensor that was moved from; errc::graph_refused
// inside a function that is being compiled; what the commands that made the contents threw. Import:
// errc::invalid_argument for bytes that are no handle, or a damaged one, another element type, a shared tensor that is
// not imported as const, a handle of another machine or GPU or of this very process; errc::unsupported on a CPU device
// and for a handle of another version of Sluice. device_error when CUDA refuses, for instance because the exporting
// process has ended. In a build without CUDA all of this throws errc::unsupported.
//
// Programs without Sluice send CUDA's own handle of a whole allocation (cudaIpcGetMemHandle): import_allocation takes
// it.
//
// CPU devices: their memory is the process's own. Map memory that both processes see (shm_open or memfd_create, and
// mmap with MAP_SHARED), and adopt() it in each.
//
// Thread safety: all functions and members may be called on any thread.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <type_traits>

#include "sluice/base/source_location.hpp"
#include "sluice/cuda/foreign_streams.hpp"
#include "sluice/runtime/adopt.hpp"
#include "sluice/runtime/dlpack.hpp"

namespace sluice {

namespace cuda {

// What crosses to the other process, as bytes.
struct tensor_handle {
    std::array<std::byte, 256> bytes{};  // opaque; holds no pointer of this process
};
// What crosses to the other process to open an interprocess_event, as bytes.
struct event_handle {
    std::array<std::byte, 192> bytes{};  // opaque; holds no pointer of this process
};
// CUDA's own handle of memory that cudaMalloc allocated: the bytes of a cudaIpcMemHandle_t.
struct allocation_handle {
    std::array<std::byte, 64> bytes{};  // opaque
};

}  // namespace cuda

namespace detail {

struct exported_element {
    dlpack_type type{};
    bool is_written = false;  // whether an importing process may write
};

cuda::tensor_handle export_for_processes(storage& memory, const shape& shape, exported_element element,
                                         const source_location& location);

struct process_import {
    storage_ref memory;
    sluice::shape shape;
};
process_import import_from_process(device& gpu, const cuda::tensor_handle& handle, exported_element element,
                                   const source_location& location);
storage_ref import_allocation(device& gpu, const cuda::allocation_handle& handle, const shape& shape,
                              std::size_t element_bytes, std::size_t element_alignment,
                              const source_location& location);

}  // namespace detail

namespace cuda {

// Keeps the memory of a tensor that other processes may use.
class exported_tensor {
public:
    exported_tensor(exported_tensor&&) noexcept = default;
    exported_tensor& operator=(exported_tensor&&) noexcept = default;
    exported_tensor(const exported_tensor&) = delete;  // one object says when the memory may go
    exported_tensor& operator=(const exported_tensor&) = delete;
    ~exported_tensor() = default;

    // The bytes to send to other processes, as often as needed; valid while this lives.
    const tensor_handle& handle() const noexcept { return handle_; }

    // For export_tensor. Costs O(1).
    exported_tensor(storage_ref memory, const tensor_handle& handle) noexcept
        : memory_(std::move(memory)), handle_(handle) {}

private:
    storage_ref memory_;
    tensor_handle handle_;
};

// Blocks until no command of this process uses the tensor (a shared one: until no command writes it). Costs the wait,
// and calls of the driver; nothing is copied on the device.
template <dlpack_element T>
exported_tensor export_tensor(const tensor<T>& x, const source_location& location = source_location::current()) {
    detail::require_held(x, {"export_tensor", "", location});
    constexpr detail::exported_element element{detail::dlpack_type_of<T>(), true};
    return {storage_ref(x.memory()), detail::export_for_processes(*x.memory(), x.shape(), element, location)};
}
// Other processes only read it. Costs the wait, and calls of the driver; nothing is copied on the device.
template <dlpack_element T>
exported_tensor export_tensor(const shared_tensor<T>& x, const source_location& location = source_location::current()) {
    detail::require_held(x, {"export_tensor", "", location});
    constexpr detail::exported_element element{detail::dlpack_type_of<T>(), false};
    return {storage_ref(x->memory()), detail::export_for_processes(*x->memory(), x->shape(), element, location)};
}

// A tensor over the other process's memory; a shared_tensor for const T. `gpu` is the GPU that the memory is on. The
// first import of a handle opens a mapping, which may take milliseconds. Costs what adopt costs, and that mapping.
template <typename T>
requires dlpack_element<std::remove_const_t<T>>
adopted_tensor<T> import_tensor(device& gpu, const tensor_handle& handle,
                                const source_location& location = source_location::current()) {
    constexpr detail::exported_element element{detail::dlpack_type_of<std::remove_const_t<T>>(), !std::is_const_v<T>};
    detail::process_import made = detail::import_from_process(gpu, handle, element, location);
    return detail::adopted_over<T>(std::move(made.memory), made.shape);
}

// A tensor over the beginning of an allocation of another program, which need not use Sluice; a shared_tensor for
// const T. The other program keeps the allocation until the tensor is dropped and its last command is complete; it has
// waited for its own work on the memory before it sends the handle. CUDA alone checks the handle, and says nothing of
// the type of what is in the memory: accept handles only from processes that you trust.
//
// Throws errc::invalid_argument for a tensor that is longer than the allocation, and for memory of another GPU;
// errc::unsupported on a CPU device and in a build without CUDA; device_error when CUDA refuses: for bytes that are no
// handle, for one of this very process, and when the other process has ended. Costs what adopt costs,
// and a mapping of the memory, which may take milliseconds.
template <typename T>
adopted_tensor<T> import_allocation(device& gpu, const allocation_handle& handle, const shape& shape,
                                    const source_location& location = source_location::current()) {
    static_assert(std::is_trivially_copyable_v<T>, "device memory holds trivially copyable elements");
    return detail::adopted_over<T>(detail::import_allocation(gpu, handle, shape, sizeof(T), alignof(T), location),
                                   shape);
}

// An event that two processes record and wait for. A turn passes with it on the GPU, and no host waits:
//
//     // one process                                           // another one
//     cuda::interprocess_event filled(gpu);
//     send(filled.handle());                                   cuda::interprocess_event filled(gpu, received);
//     auto passed = spawn(fill(std::move(x)).and_then(
//         [&](auto y) { return cuda::record(filled, std::move(y)); }), pool);
//     send(go);  // when spawn has returned                    receive(go);
//                                                              auto z = cuda::wait_for(filled, std::move(y));
//                                                              spawn(std::move(z).and_then(more_work), pool);
//
// A wait is for the latest record before it was submitted, in either process. So the host reports to the other process
// that the record was submitted: after spawn, or submit. It does not wait for the GPU.
//
// The process that made the event keeps it until the others have destroyed theirs and no command waits for it. An
// operation keeps the event that it names until it is submitted or dropped. A compiled graph refuses these operations
// with errc::graph_refused, because CUDA does not say that a graph may have such events: record or wait outside of it.
class interprocess_event {
public:
    // Throws errc::unsupported on a CPU device. Costs calls of the driver, which makes an event.
    explicit interprocess_event(device& gpu, const source_location& location = source_location::current());
    // Opens the event of another process. Errors as for import_tensor. Costs calls of the driver, which opens an event.
    interprocess_event(device& gpu, const event_handle& handle,
                       const source_location& location = source_location::current());

    // Throws errc::invalid_argument for an event of another process: only the process that made it exports it. Costs
    // calls of the driver.
    event_handle handle(const source_location& location = source_location::current()) const;
    // A cudaEvent_t without timing. Valid while the object lives.
    CUevent_st* get() const noexcept { return event_.get(); }
    // The same, which also keeps it. Costs O(1): one reference count.
    std::shared_ptr<CUevent_st> owner() const noexcept { return event_; }

private:
    std::shared_ptr<CUevent_st> event_;
    device* on_;
    bool is_ours_;
};

// One command, which names the tensor as written. Its output is the tensor.
template <typename T>
class turn_operation : public operation_base<turn_operation<T>> {
public:
    using output = tensor<T>;

    turn_operation(event_operation::kind what, std::shared_ptr<CUevent_st> event, tensor<T> x,
                   const source_location& location)
        : what_(what), event_(std::move(event)), x_(std::move(x)), location_(location) {}

    output submit(execution_context& context) && {
        detail::require_held(x_, {"interprocess_event", "", location_});
        event_operation::submit_to(context.stream(), what_, event_.get(), x_.memory(), location_);
        return std::move(x_);
    }
    work_estimate estimate() const { return {.commands = 1}; }

private:
    event_operation::kind what_;
    std::shared_ptr<CUevent_st> event_;
    tensor<T> x_;
    source_location location_;
};

// Commands on the tensor that are submitted later, to any stream, run after the event's latest record. Submitting it
// costs one command.
template <typename T>
turn_operation<T> wait_for(const interprocess_event& event, tensor<T> x,
                           const source_location& location = source_location::current()) {
    return {event_operation::kind::wait_for_interprocess_event, event.owner(), std::move(x), location};
}
// Records the event after all commands on the tensor that were submitted before, to any stream. Submitting it costs one
// command.
template <typename T>
turn_operation<T> record(const interprocess_event& event, tensor<T> x,
                         const source_location& location = source_location::current()) {
    return {event_operation::kind::record_interprocess_event, event.owner(), std::move(x), location};
}

}  // namespace cuda
}  // namespace sluice

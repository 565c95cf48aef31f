// SPDX-License-Identifier: Apache-2.0
// device: executes commands; a GPU or a (virtual) CPU device. A runtime owns it. It lives at least as long as the
// runtime and everything that was created on it.
//
// Thread safety: all members may be called on any thread.
//
// All members take constant time, but for these: leasing a stream, trim, synchronize, poll, depends_on_others and
// all_queues go through the streams of the device, and poll also through those of the devices that its commands depend
// on; peers goes through the devices of the runtime; memory asks the driver.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "sluice/async/executor.hpp"
#include "sluice/runtime/detail/command_queue.hpp"
#include "sluice/runtime/interpreter.hpp"
#include "sluice/runtime/memory_pool.hpp"
#include "sluice/runtime/stream.hpp"

namespace sluice {

namespace detail {
class part_context;
class runtime_state;
class runtime_log;
class completion_service;
class staging_pool;
}  // namespace detail

// Keeps a device and its runtime's memory alive. It costs one reference count.
class runtime_ref {
public:
    // Counts one reference to the runtime of this device. The last one that ends, after the end of the runtime, returns
    // its memory.
    explicit runtime_ref(device& of) noexcept;
    runtime_ref(const runtime_ref&) = delete;  // construct another from the device
    runtime_ref& operator=(const runtime_ref&) = delete;
    ~runtime_ref();

private:
    device* of_;
};

// A stream on loan from its device. Dropping the lease returns the stream, even while commands still run on it. But a
// foreign stream (stream_options::foreign) is the caller's again: dropping its lease blocks until the commands on it
// are complete.
class stream_lease {
public:
    // Leases a stream of the device. Throws the first cause when the device has faulted, errc::runtime_closed after the
    // runtime's end, and errc::unsupported for a foreign stream on a CPU device.
    stream_lease(device& owner, const stream_options& options = {});

    stream operator*() const noexcept { return stream_; }           // the leased stream; the lease outlives its use
    const stream* operator->() const noexcept { return &stream_; }  // the leased stream

private:
    struct give_back {
        void operator()(command_queue* leased) const noexcept;
    };
    std::unique_ptr<command_queue, give_back> queue_;
    stream stream_;
};

class device {
public:
    // For the runtime, which owns the device and outlives it.
    device(detail::runtime_state& runtime, std::string name, std::unique_ptr<device_interpreter> interpreter);
    device(const device&) = delete;  // streams, pools and tensors point to it
    device& operator=(const device&) = delete;
    ~device();

    device_kind kind() const noexcept { return interpreter_->kind(); }  // whether it is a GPU or a CPU device
    // "cpu:0", "cuda:1".
    const std::string& name() const noexcept { return name_; }
    // What it is and can do, as its backend has found it.
    const device_properties& properties() const noexcept { return interpreter_->properties(); }
    // The priorities that its streams can have; a stream that asks for another one gets the nearest.
    priority_range priorities() const;
    // The device's memory now. What the pool keeps cached counts as free. Throws device_error when the device has
    // faulted.
    memory_info memory() const;
    // How threads wait for the device where the call does not say: at first wait_mode::spin for a GPU, block for a CPU
    // device.
    wait_mode default_wait_mode() const noexcept { return wait_mode_.load(std::memory_order_relaxed); }
    // Applies to waits that begin from now on, on any thread.
    void set_default_wait_mode(wait_mode mode) noexcept { wait_mode_.store(mode, std::memory_order_relaxed); }
    // See runtime_options::blocks_each_command.
    bool blocks_each_command() const noexcept { return blocks_each_command_; }
    void block_each_command() noexcept { blocks_each_command_ = true; }  // by the runtime, before the first command
    // Whether device memory is plain host memory.
    bool shares_host_memory() const noexcept { return interpreter_->shares_host_memory(); }
    // Whether both devices have the same runtime and kind: then one command may name storage of both.
    bool is_peer_of(const device& other) const noexcept {
        return &runtime_ == &other.runtime_ && kind() == other.kind();
    }

    memory_pool& device_pool() noexcept { return device_pool_; }  // of device memory
    memory_pool& host_pool() noexcept { return host_pool_; }      // of host memory, pinned for a GPU
    // Returns unused memory to the system: of both pools, of the staging pool and of the streams' queues. Blocks until
    // its last uses are complete. Each pool keeps `keep_bytes`, in use and cached.
    void trim(std::size_t keep_bytes = 0);

    // Blocks until everything submitted so far to any stream is complete. Throws when the device has faulted.
    void synchronize();

    // Queries the progress and the faults of this device and of the devices that its commands depend on. Does not
    // block.
    void poll() noexcept;
    // Whether any command here has ever depended on another device; and whether one does that is not known to be
    // complete.
    bool has_depended_on_others() const noexcept { return reaches_others_.load(std::memory_order_acquire); }
    bool depends_on_others() const noexcept;  // whether its commands wait for other devices

    // A device that has faulted accepts no more commands: it refuses each with the first cause. The runtime's
    // completion thread reports the fault to each waiter. Other devices continue where the backend allows it
    // (fails_alone). But a device whose commands wait for this one or use its memory fails with the same cause: those
    // commands may never end, nor those after them.
    void poison(std::exception_ptr cause) noexcept;
    std::exception_ptr cause() const noexcept;  // null when the device has not faulted
    // Whether it has faulted.
    bool is_poisoned() const noexcept { return (state_.load(std::memory_order_acquire) & poisoned) != 0; }
    // Whether it accepts no more commands: it has faulted, or the runtime has ended.
    bool is_refusing() const noexcept { return state_.load(std::memory_order_acquire) != open; }
    // Throws the first cause when it has faulted, errc::runtime_closed after the runtime's end.
    void throw_if_refusing() const {
        if (is_refusing()) refuse();
    }
    // Throws the first cause when it has faulted.
    void throw_if_poisoned() const {
        if (is_poisoned()) refuse();
    }

    // A storage without contents that every NCCL command on this device names as written. So these commands run one at
    // a time, in submission order, on whatever streams and from whatever threads they are submitted. The first call
    // throws what an allocation throws, and costs one of the pool; later ones cost O(1).
    storage_ref collective_order();

    // For backends and for use with other libraries.
    device_interpreter& interpreter() noexcept { return *interpreter_; }
    std::vector<command_queue*> all_queues() const;  // of all of its streams
    // The other devices of the same runtime and kind.
    std::vector<device*> peers() const;
    // For uploads from pageable memory; created at the first call.
    detail::staging_pool& staging();
    // Resumes waiters and fires timers.
    detail::completion_service& service() noexcept;
    // Writes to the program's logger; see runtime_options::log.
    detail::runtime_log& log() const noexcept;

private:
    friend class runtime_ref;
    friend class stream_lease;
    friend class memory_pool;
    friend class command_queue;
    friend class detail::completion_service;
    friend class detail::runtime_state;
    friend class detail::part_context;
    enum state : unsigned char { open = 0, poisoned = 1, closed = 2 };  // bits: a device may be poisoned and closed

    command_queue& acquire_queue(const stream_options& options);
    void release_queue(command_queue& leased) noexcept;
    void close() noexcept;
    detail::staging_pool* existing_staging() const noexcept;
    [[noreturn]] void refuse() const;

    void report_poison() noexcept;
    // Whether commands here depend on work of that device that is not complete.
    bool needs(const device& other) const noexcept;
    command_queue* queue_at(std::size_t index) const noexcept;  // null beyond the last one
    void retain_runtime() noexcept;
    void release_runtime() noexcept;

    struct stream_slot {
        std::unique_ptr<command_queue> owned;
        stream_options options;
        bool is_leased = false;
    };

    stream_slot* free_slot(const stream_options& options);  // null for none; lock held
    bool is_foreign(const command_queue& leased) const noexcept;

    detail::runtime_state& runtime_;
    const std::string name_;
    std::unique_ptr<device_interpreter> interpreter_;
    memory_pool device_pool_;
    memory_pool host_pool_;
    std::unique_ptr<detail::staging_pool> staging_;
    // Guards staging_, streams_, cause_ and collective_order_.
    mutable detail::noted_lock<std::mutex> mutex_{"that of a device"};
    std::vector<stream_slot> streams_;
    std::exception_ptr cause_;
    storage_ref collective_order_;
    struct poison_notice final : work_item {
        explicit poison_notice(device& faulted) noexcept;
        device& of;
    } notice_{*this};
    std::atomic<unsigned char> state_{open};
    std::atomic<bool> reaches_others_{false};
    std::atomic<wait_mode> wait_mode_;
    bool blocks_each_command_ = false;
};

}  // namespace sluice

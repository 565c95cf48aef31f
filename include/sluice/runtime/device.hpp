// device: something that commands run on, a GPU or a (virtual) CPU device. Owned by a runtime; it lives as
// long as that and as long as anything made on it.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "sluice/async/executor.hpp"
#include "sluice/runtime/interpreter.hpp"
#include "sluice/runtime/memory_pool.hpp"
#include "sluice/runtime/stream.hpp"

namespace sluice {

namespace detail {
class runtime_state;
class completion_service;
class staging_pool;
}  // namespace detail

// Keeps a device and its runtime's memory alive. Cheap: one reference count.
class runtime_ref {
public:
    explicit runtime_ref(device& of) noexcept;
    runtime_ref(const runtime_ref&) = delete;  // nobody needs to
    runtime_ref& operator=(const runtime_ref&) = delete;
    ~runtime_ref();

private:
    device* of_;
};

// A stream on loan from its device; it goes back when the lease is dropped, whatever still runs on it.
class stream_lease {
public:
    stream_lease(device& owner, const stream_options& options = {});

    stream& operator*() const noexcept { return *stream_; }
    stream* operator->() const noexcept { return stream_.get(); }
    stream* get() const noexcept { return stream_.get(); }

private:
    struct give_back {
        void operator()(stream* lent) const noexcept;
    };
    std::unique_ptr<stream, give_back> stream_;
};

class device {
public:
    device(detail::runtime_state& runtime, std::string name, std::unique_ptr<device_interpreter> interpreter);
    device(const device&) = delete;  // everything made on it points to it
    device& operator=(const device&) = delete;
    ~device();

    device_kind kind() const noexcept { return interpreter_->kind(); }
    // "cpu:0", "cuda:1".
    const std::string& name() const noexcept { return name_; }
    const device_properties& properties() const noexcept { return interpreter_->properties(); }
    // Memory of the device now: what is free, and what the pool keeps cached counts as free.
    memory_info memory() const;
    wait_mode default_wait_mode() const noexcept { return interpreter_->default_wait_mode(); }
    bool shares_host_memory() const noexcept { return interpreter_->shares_host_memory(); }
    // Whether both are of one runtime and one kind: then commands may reach from one to the other.
    bool is_beside(const device& other) const noexcept {
        return &runtime_ == &other.runtime_ && kind() == other.kind();
    }

    memory_pool& device_pool() noexcept { return device_pool_; }
    memory_pool& host_pool() noexcept { return host_pool_; }
    // Returns unused memory, of both pools and for staging, to the system, after waiting for its last uses.
    void trim();

    // Blocks until all that was submitted so far to any stream is complete. Throws when the device faulted.
    void synchronize();

    // Asks the device, and those that its commands hang on, how far their streams are and whether they have faulted.
    // Does not block.
    void poll() noexcept;
    // Whether a command here ever hung on another device; and whether one does that is not known to be complete.
    bool reaches_others() const noexcept { return reaches_others_.load(std::memory_order_acquire); }
    bool hangs_on_others() const noexcept;

    // A device that has faulted takes no more commands: each is refused with the first cause. Whoever waits for it is
    // told, by the runtime's completion thread. Other devices go on where the backend lets them (fails_alone), but for
    // those on which commands wait for what this one was to do, or use its memory: they may never end, nor what stands
    // behind them, so those devices have failed for the same cause.
    void poison(std::exception_ptr cause) noexcept;
    std::exception_ptr cause() const noexcept;  // null when it is sound
    bool is_poisoned() const noexcept { return (state_.load(std::memory_order_acquire) & poisoned) != 0; }
    void throw_if_refusing() const {
        if (state_.load(std::memory_order_acquire) != open) refuse();
    }
    void throw_if_poisoned() const {
        if (is_poisoned()) refuse();
    }

    // Memory that commands name as written which must run one after the other on this device, whatever their streams
    // and whoever submits them: NCCL's. It holds nothing.
    storage_ref turn();

    // For backends and for mixing with other libraries.
    device_interpreter& interpreter() noexcept { return *interpreter_; }
    std::vector<command_queue*> all_queues() const;
    // The others of its runtime and kind.
    std::vector<device*> beside() const;
    // For uploads from pageable memory; made when first asked for.
    detail::staging_pool& staging();
    // Where waiters are told, and deadlines kept.
    detail::completion_service& service() noexcept;

private:
    friend class runtime_ref;
    friend class stream_lease;
    friend class memory_pool;
    friend class storage_ref;
    friend class command_queue;
    friend class detail::completion_service;
    friend class detail::runtime_state;
    enum state : unsigned char { open = 0, poisoned = 1, closed = 2 };  // the latter two may come together

    stream* lend(const stream_options& options);
    void take_back(stream* lent) noexcept;
    void close() noexcept;
    detail::staging_pool* made_staging() const noexcept;
    [[noreturn]] void refuse() const;

    void tell_of_poison() noexcept;
    // Whether commands here wait for what has not come to its end on that device.
    bool needs(const device& other) const noexcept;
    command_queue* queue_at(std::size_t index) const noexcept;  // null beyond the last one
    void retain_runtime() noexcept;
    void release_runtime() noexcept;

    struct stream_slot {
        std::unique_ptr<command_queue> owned;
        stream_options options;
        bool lent = false;
    };

    detail::runtime_state& runtime_;
    const std::string name_;
    std::unique_ptr<device_interpreter> interpreter_;
    memory_pool device_pool_;
    memory_pool host_pool_;
    std::unique_ptr<detail::staging_pool> staging_;
    mutable std::mutex mutex_;  // guards staging_, streams_, cause_ and turn_
    std::vector<stream_slot> streams_;
    std::exception_ptr cause_;
    storage_ref turn_;
    struct poison_notice final : work_item {
        explicit poison_notice(device& faulted) noexcept;
        device& of;
    } notice_{*this};
    std::atomic<unsigned char> state_{open};
    std::atomic<bool> reaches_others_{false};
};

}  // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// A fake device that behaves like a GPU and can be broken. Its own thread runs the commands, as many as the test
// allows. The host learns about progress only through poll, through a wait, or from a word of memory. After fault()
// nothing more runs; the next call that polls, waits or submits gets the fault and poisons the device.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "sluice/base/error.hpp"
#include "sluice/runtime/detail/outcome.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/row_copy.hpp"
#include "support/owned_state.hpp"

namespace sluice::faults {

class faulty_stream;
class scarce_memory;

// The state that the streams of one device share.
class machine {
public:
    static constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

    machine() : worker_([this] { work(); }) {}
    machine(const machine&) = delete;  // the thread points to it
    machine& operator=(const machine&) = delete;
    ~machine() { stop(); }

    // From now on only as many commands run as allow() permits.
    void hold() {
        change([this] { allowed_ = 0; });
    }
    void allow(std::size_t commands) {
        change([this, commands] { allowed_ += commands; });
    }
    void release() {
        change([this] { allowed_ = unlimited; });
    }
    // Nothing runs from now on. The host finds out at its next query. A command that calls this is the culprit: the
    // error has its source line.
    void fault(std::string why) {
        change([&] {
            if (std::exchange(has_faulted_, true)) return;
            why_ = std::move(why);
            if (std::this_thread::get_id() == worker_.get_id()) where_ = running_;
        });
    }
    // Like a GPU's: a poll asks only about streams that have something to do.
    std::atomic<bool> tells_only_of_commands{false};

    void stop() {
        change([this] { stops_ = true; });
        if (worker_.joinable()) worker_.join();
    }

private:
    friend class faulty_stream;
    friend class scarce_memory;
    friend class faulty_device;

    // The lock is held while the waiters are woken: a waiter that sees the change may drop this object at once.
    template <typename Function>
    void change(Function&& f) {
        const std::lock_guard lock(mutex_);
        f();
        changed_.notify_all();
    }
    // Calls f with the lock held, unless there was a fault.
    template <typename Function>
    bool is_sound(Function&& f) {
        const std::lock_guard lock(mutex_);
        if (!has_faulted_) f();
        return !has_faulted_;
    }
    void work();

    std::mutex mutex_;
    std::condition_variable changed_;
    std::size_t allowed_ = unlimited;
    bool has_faulted_ = false;
    bool stops_ = false;
    std::string why_;  // does not change after the fault, as the next one
    source_location where_;
    source_location running_;  // the line of the command that the worker runs
    std::vector<faulty_stream*> streams_;
    std::thread worker_;  // last: it uses all of the above
};

class faulty_stream final : public stream_interpreter {
public:
    faulty_stream(command_queue& owner, machine& on) : owner_(owner), machine_(on) {
        machine_.change([this] { machine_.streams_.push_back(this); });
    }
    ~faulty_stream() override {
        machine_.change([this] { std::erase(machine_.streams_, this); });
    }

    void copy(const command_info& info, const copy_command& command) override {
        enqueue(info, [command] { copy_on_host(command); });
    }
    void fill(const command_info& info, const fill_command& command) override {
        enqueue(info, [command] {
            if (command.bytes != 0) std::memset(command.destination, command.value, command.bytes);
        });
    }
    void launch(const command_info& info, const launch_command& command) override {
        const auto* const from = static_cast<const std::byte*>(command.closure);
        auto closure =
            std::make_shared<std::vector<std::max_align_t>>(command.closure_bytes / sizeof(std::max_align_t) + 1);
        if (command.closure_bytes != 0) std::memcpy(closure->data(), from, command.closure_bytes);
        enqueue(info, [function = command.host_function, closure] { function(closure->data()); });
    }
    std::exception_ptr library_call(const command_info& info, const library_command& command) override {
        enqueue(info, [] {});
        try {
            command.call(native(), command.closure);
        } catch (...) {
            return std::current_exception();
        }
        return {};
    }
    void host_call(const command_info& info, host_command command) override {
        enqueue(info, std::move(command.call), detail::outcome_ref(info.outcome));
    }
    ticket order_after(stream_interpreter& other, ticket upto) override {
        push({.awaited = &static_cast<faulty_stream&>(other), .upto = upto});
        return upto;
    }
    std::unique_ptr<timed_mark> mark() override { throw std::logic_error("the fake device keeps no time"); }

    native_stream native() const noexcept override { return {device_kind::cpu, nullptr, &owner_}; }
    ticket passed() const noexcept override { return passed_.load(std::memory_order_acquire); }
    void poll() noexcept override {
        if (machine_.tells_only_of_commands && passed() >= owner_.issued()) return;
        if (machine_.is_sound([this] { has_passed(done_); })) return;
        report_fault();
    }
    void wait(ticket upto, wait_mode) override {
        {
            std::unique_lock lock(machine_.mutex_);
            machine_.changed_.wait(lock, [&] { return done_ >= upto || machine_.has_faulted_; });
        }
        if (!machine_.is_sound([this] { has_passed(done_); })) refuse();
    }
    void abandon() noexcept override {
        for (;;) {          // one at a time: an empty std::deque to exchange with allocates
            entry dropped;  // outside the lock
            const std::lock_guard lock(machine_.mutex_);
            if (queue_.empty()) return;
            dropped = std::move(queue_.front());
            queue_.pop_front();
        }
    }
    bool needs_watching() const noexcept override { return true; }
    ticket last_flag() const noexcept override { return word_.load(std::memory_order_acquire); }

private:
    friend class machine;
    struct entry {
        std::function<void()> call = {};
        detail::outcome_ref outcome = {};
        faulty_stream* awaited = nullptr;
        ticket upto = 0;
        source_location location = {};
    };

    void enqueue(const command_info& info, std::function<void()> call, detail::outcome_ref outcome = {}) {
        push({.call = std::move(call), .outcome = std::move(outcome), .location = info.location});
    }
    void push(entry next) {
        if (!machine_.is_sound([&] { queue_.push_back(std::move(next)); })) refuse();
        machine_.changed_.notify_all();
    }
    void report_fault() noexcept {
        owner_.owner().poison(std::make_exception_ptr(
            device_error(errc::device_failed, machine_.why_, {"a command", owner_.owner().name(), machine_.where_})));
    }
    [[noreturn]] void refuse() {
        report_fault();
        owner_.owner().throw_if_refusing();
        std::abort();  // not reached: the device has just been poisoned
    }
    bool is_ready() const {  // with the machine's lock
        if (queue_.empty()) return false;
        const entry& next = queue_.front();
        return next.awaited == nullptr ? machine_.allowed_ != 0 : next.awaited->last_flag() >= next.upto;
    }
    void has_passed(ticket number) noexcept {
        ticket known = passed_.load(std::memory_order_relaxed);
        while (known < number && !passed_.compare_exchange_weak(known, number, std::memory_order_release)) {
        }
    }

    static void run(entry next) noexcept {
        std::exception_ptr failure = next.outcome ? next.outcome->inherited() : std::exception_ptr();
        try {
            if (!failure) next.call();
        } catch (...) {
            failure = std::current_exception();
        }
        next.call = nullptr;
        if (next.outcome) next.outcome->settle(std::move(failure));
    }

    command_queue& owner_;
    machine& machine_;
    std::deque<entry> queue_;
    ticket done_ = 0;              // with the machine's lock
    std::atomic<ticket> word_{0};  // the same, for watching threads
    std::atomic<ticket> passed_{0};
};

inline void machine::work() {
    std::unique_lock lock(mutex_);
    for (;;) {
        const auto ready = std::ranges::find_if(streams_, [](const faulty_stream* each) { return each->is_ready(); });
        if (stops_) return;
        if (has_faulted_ || ready == streams_.end()) {
            // Streams of the other device do not notify this thread.
            changed_.wait_for(lock, std::chrono::milliseconds(1));
            continue;
        }
        faulty_stream& on = **ready;
        auto next = std::move(on.queue_.front());
        on.queue_.pop_front();
        if (next.awaited != nullptr) continue;
        if (allowed_ != unlimited) --allowed_;
        running_ = next.location;
        lock.unlock();
        faulty_stream::run(std::move(next));
        lock.lock();
        if (has_faulted_) continue;  // it was not complete then
        on.word_.store(++on.done_, std::memory_order_release);
        changed_.notify_all();
    }
}

// Memory whose n-th and all later allocations fail. After a fault each allocation throws its own error, as the driver's
// do.
class scarce_memory final : public memory_source {
public:
    explicit scarce_memory(machine& of) : of_(of) {}

    void* allocate(std::size_t bytes) override {
        if (!of_.is_sound([] {})) throw device_error(errc::device_failed, "the driver's allocation failed");
        const std::lock_guard lock(mutex_);
        if (calls_++ >= fails_from_) return nullptr;
        ++blocks_;
        return std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    }
    void free(void* data, std::size_t) noexcept override {
        const std::lock_guard lock(mutex_);
        --blocks_;
        std::free(data);
    }
    memory_info info() override {
        if (!of_.is_sound([] {})) throw device_error(errc::device_failed, "the driver's answer failed", {{}, "fake:0"});
        return {0, total_bytes};
    }

    std::atomic<std::size_t> total_bytes{0};  // what it says that it has; 0: not known

    // `call` is counted from now.
    void fail_from(std::size_t call) {
        const std::lock_guard lock(mutex_);
        calls_ = 0;
        fails_from_ = call;
    }
    void recover() { fail_from(std::numeric_limits<std::size_t>::max()); }
    // Blocks that are allocated.
    std::size_t blocks() {
        const std::lock_guard lock(mutex_);
        return blocks_;
    }

private:
    machine& of_;
    std::mutex mutex_;
    std::size_t calls_ = 0;
    std::size_t fails_from_ = std::numeric_limits<std::size_t>::max();
    std::size_t blocks_ = 0;
};

class faulty_device final : public device_interpreter {
public:
    faulty_device() {
        properties_.max_threads_per_block = 1024;
        properties_.max_shared_bytes_per_block = std::size_t{48} * 1024;
    }

    device_kind kind() const noexcept override { return device_kind::cpu; }
    const device_properties& properties() const noexcept override { return properties_; }
    std::unique_ptr<stream_interpreter> make_stream(command_queue& owner, const stream_options&) override {
        if (!works.is_sound([] {}))
            throw device_error(errc::device_failed, "the driver's stream failed", {{}, "fake:0"});
        return std::make_unique<faulty_stream>(owner, works);
    }
    memory_source& device_memory() noexcept override { return memory; }
    memory_source& host_memory() noexcept override { return host; }
    wait_mode default_wait_mode() const noexcept override { return wait_mode::block; }
    bool runs_library_calls_later() const noexcept override { return false; }
    bool shares_host_memory() const noexcept override { return false; }
    void close() noexcept override { works.stop(); }

    machine works;
    scarce_memory memory{works};
    scarce_memory host{works};

private:
    device_properties properties_;
};

// Two such devices, "fake:0" and "fake:1". The destructor waits for the work, as a runtime's does.
class faulty_runtime {
public:
    faulty_runtime() = default;
    faulty_runtime(const faulty_runtime&) = delete;  // its members point to each other
    faulty_runtime& operator=(const faulty_runtime&) = delete;

private:
    test_support::owned_state state_{new detail::runtime_state};

    faulty_device& add(const char* name) {
        auto made = std::make_unique<faulty_device>();
        faulty_device& added = *made;
        state_->devices.push_back(std::make_unique<device>(*state_, name, std::move(made)));
        return added;
    }

public:
    faulty_device& first = add("fake:0");
    faulty_device& second = add("fake:1");
    device& on = *state_->devices[0];
    device& other = *state_->devices[1];
};

}  // namespace sluice::faults

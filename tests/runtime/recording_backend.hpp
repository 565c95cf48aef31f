// SPDX-License-Identifier: Apache-2.0
// recording_device: a backend that records commands and waits instead of executing them (library calls run during
// submission, as on a GPU). Tests use it to check which waits a stream inserts and what a pool requests from its memory
// source. A command passes only when a test says so, or when a thread waits for it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <ostream>
#include <stdexcept>
#include <vector>

#include "sluice/runtime/detail/outcome.hpp"
#include "sluice/runtime/device.hpp"
#include "support/owned_state.hpp"

namespace sluice::recording {

// A wait for ticket `upto` of the stream with this index.
struct recorded_wait {
    std::size_t other;
    ticket upto;
    friend bool operator==(const recorded_wait&, const recorded_wait&) = default;
    friend void PrintTo(const recorded_wait& w, std::ostream* out) {
        *out << "for ticket " << w.upto << " of stream " << w.other;
    }
};

class recording_stream final : public stream_interpreter {
public:
    explicit recording_stream(command_queue& owner) : owner_(owner) {}

    void copy(const command_info& info, const copy_command&) override { record(info); }
    void fill(const command_info& info, const fill_command&) override { record(info); }
    void launch(const command_info& info, const launch_command&) override { record(info); }
    std::exception_ptr library_call(const command_info& info, const library_command& command) override {
        record(info);
        try {
            if (command.call != nullptr) command.call(native(), command.closure);
        } catch (...) {
            return std::current_exception();
        }
        return {};
    }
    void host_call(const command_info& info, host_command) override { record(info); }
    ticket order_after(stream_interpreter& other, ticket upto) override {
        command_queue& from = static_cast<recording_stream&>(other).owner_;
        waits.push_back({from.index(), upto});
        return waits_cover_everything ? from.issued() : upto;
    }
    std::unique_ptr<timed_mark> mark() override {
        if (refuses_marks) throw std::runtime_error("refused");
        return std::make_unique<recorded_mark>(*this, owner_.issued());
    }

    native_stream native() const noexcept override { return {device_kind::cpu, nullptr, &owner_}; }
    ticket passed() const noexcept override { return passed_; }
    void poll() noexcept override {
        if (on_poll) on_poll();
        raise_passed(done);
    }
    void wait(ticket upto, wait_mode) override {
        if (fault) std::rethrow_exception(fault);
        awaited.push_back(upto);
        if (on_wait) on_wait();
        raise_passed(upto);
    }

    std::vector<std::string> commands;
    std::vector<recorded_wait> waits;
    std::vector<ticket> awaited;          // by the host
    ticket done = 0;                      // the ticket that the next poll finds passed
    std::function<void()> on_poll;        // called by each poll
    std::function<void()> on_wait;        // called by each wait
    std::vector<bool> inherits_failure;   // of each command: whether what it reads has failed already
    bool refuses_the_next = false;        // enqueueing throws, once
    bool waits_cover_everything = false;  // a wait covers all that the other stream has issued
    bool refuses_marks = false;
    std::exception_ptr fault;

private:
    // Waiting for the mark waits for the command before it.
    class recorded_mark final : public timed_mark {
    public:
        recorded_mark(recording_stream& on, ticket after) : on_(on), after_(after) {}
        void wait() override { on_.wait(after_, wait_mode::block); }
        bool has_passed() const noexcept override { return on_.passed() >= after_; }
        std::chrono::duration<double, std::micro> since(const timed_mark&) const override {
            throw std::logic_error("not recorded");
        }

    private:
        recording_stream& on_;
        const ticket after_;
    };

    void record(const command_info& info) {
        if (std::exchange(refuses_the_next, false)) throw std::runtime_error("refused");
        commands.emplace_back(info.name);
        inherits_failure.push_back(info.outcome != nullptr && info.outcome->failure() != nullptr);
    }

    void raise_passed(ticket to) noexcept {
        ticket before = passed_;
        while (before < to && !passed_.compare_exchange_weak(before, to)) {
        }
    }

    command_queue& owner_;
    // A thread that closes the device reads it while the completion thread polls for a fault.
    std::atomic<ticket> passed_ = 0;
};

class recording_memory final : public memory_source {
public:
    void* allocate(std::size_t bytes) override {
        ++calls;
        if (fails) throw std::runtime_error("planted failure of the driver");
        if (used + bytes > limit) {
            if (refused) refused();
            return nullptr;
        }
        used += bytes;
        return std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    }
    void free(void* data, std::size_t bytes) noexcept override {
        if (before_free) before_free();
        ++returns;
        used -= bytes;
        std::free(data);
    }
    memory_info info() override { return {limit - used, limit}; }
    bool is_divisible() const noexcept override { return divisible; }

    std::size_t limit = std::size_t{1} << 30;
    std::atomic<std::size_t> used = 0;
    std::size_t calls = 0;
    std::size_t returns = 0;
    bool fails = false;
    bool divisible = true;
    std::function<void()> refused;      // called when a request exceeds the limit
    std::function<void()> before_free;  // called before memory is freed
};

class recording_device final : public device_interpreter {
public:
    device_kind kind() const noexcept override { return device_kind::cpu; }
    const device_properties& properties() const noexcept override { return properties_; }
    std::unique_ptr<stream_interpreter> make_stream(command_queue& owner, const stream_options&) override {
        auto made = std::make_unique<recording_stream>(owner);
        streams.push_back(made.get());
        return made;
    }
    memory_source& device_memory() noexcept override { return memory; }
    memory_source& host_memory() noexcept override { return host; }
    wait_mode default_wait_mode() const noexcept override { return wait_mode::block; }
    bool runs_library_calls_later() const noexcept override { return false; }
    bool shares_host_memory() const noexcept override { return false; }
    void close() noexcept override {}

    recording_memory memory;
    recording_memory host;
    std::vector<recording_stream*> streams;  // by stream index

private:
    device_properties properties_;
};

// A runtime with two such devices, "fake:0" and "fake:1", and three streams on the first.
class recorded_runtime {
public:
    recorded_runtime() = default;
    recorded_runtime(const recorded_runtime&) = delete;  // its members point to each other
    recorded_runtime& operator=(const recorded_runtime&) = delete;

    recording_stream& record_of(stream of) { return *(&of.owner() == &on ? first : second).streams[of.index()]; }

private:
    test_support::owned_state state_{new detail::runtime_state};

    recording_device& add(const char* name) {
        auto made = std::make_unique<recording_device>();
        recording_device& added = *made;
        state_->devices.push_back(std::make_unique<device>(*state_, name, std::move(made)));
        return added;
    }

public:
    recording_device& first = add("fake:0");
    recording_device& second = add("fake:1");
    device& on = *state_->devices[0];
    device& other = *state_->devices[1];
    stream_lease a{on}, b{on}, c{on};
};

// Submits one command that reads and writes these.
inline ticket run(stream on, std::vector<storage*> reads, std::vector<storage*> writes, const char* name = "test") {
    std::vector<memory_access> accesses;
    for (storage* each : reads) accesses.push_back({each, access_mode::read});
    for (storage* each : writes) accesses.push_back({each, access_mode::write});
    return on.fill({name, accesses}, {nullptr, 0, 0});
}
inline ticket read(stream on, const storage_ref& what) { return run(on, {what.get()}, {}); }
inline ticket write(stream on, const storage_ref& what) { return run(on, {}, {what.get()}); }

}  // namespace sluice::recording

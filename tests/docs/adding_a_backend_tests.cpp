// SPDX-License-Identifier: Apache-2.0
// The backend in docs/adding_a_backend.md: it carries out each command at once, on the submitting thread.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "runtime/graph_replay.hpp"
#include "sluice/runtime/detail/command_queue.hpp"
#include "sluice/sluice.hpp"
#include "support/owned_state.hpp"

namespace sluice::docs::adding_a_backend_tests {
namespace {

class immediate_memory final : public memory_source {
public:
    void* allocate(std::size_t bytes) override { return std::aligned_alloc(256, (bytes + 255) / 256 * 256); }
    void free(void* data, std::size_t) noexcept override { std::free(data); }
    memory_info info() override { return {std::size_t{1} << 30, std::size_t{1} << 30}; }
};

class immediate_mark final : public timed_mark {
public:
    void wait() override {}
    bool has_passed() const noexcept override { return true; }
    std::chrono::duration<double, std::micro> since(const timed_mark& earlier) const override {
        return at_ - dynamic_cast<const immediate_mark&>(earlier).at_;
    }

private:
    std::chrono::steady_clock::time_point at_ = std::chrono::steady_clock::now();
};

class immediate_stream final : public stream_interpreter {
public:
    explicit immediate_stream(command_queue& owner) : owner_(owner) {}

    void copy(const command_info& info, const copy_command& command) override {
        run(info, [&] { copy_on_host(command); });
    }
    void fill(const command_info& info, const fill_command& command) override {
        run(info, [&] { std::memset(command.destination, command.value, command.bytes); });
    }
    void launch(const command_info& info, const launch_command& command) override {
        run(info, [&] { command.host_function(command.closure); });
    }
    std::exception_ptr library_call(const command_info& info, const library_command& command) override {
        std::exception_ptr failure;
        run(info, [&] {
            try {
                command.call(native(), command.closure);
            } catch (...) {
                failure = std::current_exception();
            }
        });
        return failure;
    }
    void host_call(const command_info& info, host_command command) override {
        run_and_settle(info, [&] {
            command.call();
            command.call = nullptr;  // what it owns is destroyed before a waiter continues
        });
    }
    void graph(const command_info& info, const graph_command& command) override {
        const auto& program = static_cast<const detail::replay_program&>(*command.program);
        const auto replay = [&] {
            if (std::exception_ptr failure = program.list()->run(native())) std::rethrow_exception(std::move(failure));
        };
        program.may_fail() ? run_and_settle(info, replay) : run(info, replay);
    }
    // The other stream's commands are complete: it ran them when they were submitted.
    ticket order_after(stream_interpreter&, ticket upto) override { return upto; }
    std::unique_ptr<timed_mark> mark() override { return std::make_unique<immediate_mark>(); }

    native_stream native() const noexcept override { return {device_kind::cpu, nullptr, &owner_}; }
    ticket passed() const noexcept override { return passed_.load(std::memory_order_acquire); }
    void poll() noexcept override {}
    void wait(ticket, wait_mode) override {}

private:
    // A command that cannot fail by itself: skipped when what it depends on has failed.
    template <typename Command>
    void run(const command_info& info, Command&& command) {
        if (info.outcome == nullptr || !info.outcome->failure()) command();
        passed_.fetch_add(1, std::memory_order_release);
    }
    // One that can: it settles its outcome, with its own failure, with one that it inherits, or with null.
    template <typename Command>
    void run_and_settle(const command_info& info, Command&& command) {
        std::exception_ptr failure = info.outcome->inherited();
        try {
            if (!failure) command();
        } catch (...) {
            failure = std::current_exception();
        }
        info.outcome->settle(std::move(failure));
        passed_.fetch_add(1, std::memory_order_release);
    }

    command_queue& owner_;
    std::atomic<ticket> passed_{0};
};

class immediate_device final : public device_interpreter {
public:
    device_kind kind() const noexcept override { return device_kind::cpu; }
    const device_properties& properties() const noexcept override { return properties_; }
    std::unique_ptr<stream_interpreter> make_stream(command_queue& owner, const stream_options&) override {
        return std::make_unique<immediate_stream>(owner);
    }
    std::unique_ptr<graph_program> instantiate(device&, command_graph commands) override {
        return std::make_unique<detail::replay_program>(std::move(commands));
    }
    memory_source& device_memory() noexcept override { return memory_; }
    memory_source& host_memory() noexcept override { return memory_; }
    wait_mode default_wait_mode() const noexcept override { return wait_mode::block; }
    bool runs_library_calls_later() const noexcept override { return false; }
    bool shares_host_memory() const noexcept override { return true; }
    void close() noexcept override {}

private:
    const device_properties properties_{.name = "this thread", .compute_units = 1};
    immediate_memory memory_;
};

class adding_a_backend : public testing::Test {
protected:
    test_support::owned_state state{new detail::runtime_state};
    device& on = *state->devices.emplace_back(
        std::make_unique<device>(*state, "immediate:0", std::make_unique<immediate_device>()));
    round_robin pool{on, 2};
    const std::vector<float> x{1, 2, 3};
};

struct twice {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<float> x) const {
        if (float* const element = x.at(at)) *element *= 2;
    }
};

auto doubled(tensor<float> x) {
    const auto all = each_of(x);
    return launch(twice{}, all, std::move(x)).and_then(download);
}

}  // namespace

TEST_F(adding_a_backend, it_runs_operations) {
    EXPECT_EQ(sync(upload(x).and_then(doubled), pool), (std::vector<float>{2, 4, 6}));
    EXPECT_EQ(spawn(upload(x).and_then(doubled), pool).get(), (std::vector<float>{2, 4, 6}));
}

TEST_F(adding_a_backend, it_runs_graphs) {
    const auto fast = compile(pool, doubled, host_input<float>({3}));
    EXPECT_EQ(sync(fast(x), pool), (std::vector<float>{2, 4, 6}));
}

TEST_F(adding_a_backend, a_waiter_receives_a_failure) {
    const auto fail = [](std::vector<float>) -> int { throw std::runtime_error("no"); };
    auto failing =
        upload(x).and_then(download).and_then([=](auto values) { return host_call(fail, std::move(values)); });
    EXPECT_THROW(sync(std::move(failing), pool), std::runtime_error);
}

}  // namespace sluice::docs::adding_a_backend_tests

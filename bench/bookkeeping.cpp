// SPDX-License-Identifier: Apache-2.0
// The host time that the runtime costs, on a device whose interpreter does nothing: a launch with two reads and one
// write that stays on its stream, compared with the same call without the waist; and a whole pipeline of five commands,
// created, spawned and waited for.
//
// With the name of a figure and a number n it runs that figure n times and prints nothing: for tools that count
// instructions.
#include <array>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "runtime/runtime_state.hpp"
#include "sluice/sluice.hpp"
#include "support/result.hpp"
#include "support/timing.hpp"

namespace {

using namespace sluice;

class no_memory final : public memory_source {
public:
    void* allocate(std::size_t bytes) override { return ::operator new(bytes); }
    void free(void* data, std::size_t) noexcept override { ::operator delete(data); }
    memory_info info() override { return {}; }
};

// Accepts commands and does nothing with them.
class idle_stream final : public stream_interpreter {
public:
    void copy(const command_info&, const copy_command&) override { ++count_; }
    void fill(const command_info&, const fill_command&) override { ++count_; }
    void launch(const command_info&, const launch_command&) override { ++count_; }
    std::exception_ptr library_call(const command_info&, const library_command&) override {
        ++count_;
        return {};
    }
    void host_call(const command_info&, host_command) override { ++count_; }
    ticket order_after(stream_interpreter&, ticket upto) override { return upto; }
    std::unique_ptr<timed_mark> mark() override { return {}; }
    native_stream native() const noexcept override { return {device_kind::cpu, nullptr, nullptr}; }
    // Progress is known only after a wait, as on a GPU.
    ticket passed() const noexcept override { return passed_; }
    void poll() noexcept override {}
    void wait(ticket, wait_mode) override { passed_ = count_; }

private:
    ticket count_ = 0;
    ticket passed_ = 0;
};

class idle_device final : public device_interpreter {
public:
    device_kind kind() const noexcept override { return device_kind::cpu; }
    const device_properties& properties() const noexcept override { return properties_; }
    std::unique_ptr<stream_interpreter> make_stream(command_queue&, const stream_options&) override {
        return std::make_unique<idle_stream>();
    }
    memory_source& device_memory() noexcept override { return memory_; }
    memory_source& host_memory() noexcept override { return memory_; }
    wait_mode default_wait_mode() const noexcept override { return wait_mode::spin; }
    bool runs_library_calls_later() const noexcept override { return false; }
    bool shares_host_memory() const noexcept override { return true; }
    void close() noexcept override {}

private:
    device_properties properties_;
    no_memory memory_;
};

struct one_each {
    SLUICE_KERNEL void operator()(index_1d at, float by, disjoint_view<float> x) const {
        if (float* const own = x.at(at)) *own *= by;
    }
};
struct two_each {
    SLUICE_KERNEL void operator()(index_1d at, view<const float> x, disjoint_view<float> y) const {
        if (float* const own = y.at(at)) *own = x[0];
    }
};

// The pipeline of four_pipelines.
auto pipeline(host_buffer<float> in, host_buffer<float> out) {
    return zip(upload(std::move(in), {64}), uninitialized<float>({64}))
        .and_then(
            [](auto x, auto y) { return zip(launch(one_each{}, each_of(x), 0.5f, std::move(x)), value(std::move(y))); })
        .and_then(
            [](auto x, auto y) { return zip(launch(one_each{}, each_of(x), 2.f, std::move(x)), value(std::move(y))); })
        .and_then([](auto x, auto y) { return launch(two_each{}, each_of(y), std::move(x), std::move(y)); })
        .and_then(download_to(std::move(out)));
}

class measured {
public:
    explicit measured(device& idle) : pool_(idle, 1), on_(pool_.next()), out_(on_, 64) {}

    void launches(std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) on_.launch(info_, {});
    }
    void launches_without_waist(std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) baseline_.launch(info_, {});
    }
    void pipelines(std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
            host_buffer<float> in(on_, 64);
            in.write()[0] = 1;
            auto running = spawn(pipeline(std::move(in), std::move(out_)), pool_);
            out_ = std::move(running).get();
        }
    }

private:
    round_robin pool_;
    stream on_;
    const tensor<float> a_{on_, {64}}, b_{on_, {64}}, c_{on_, {64}};
    const std::array<memory_access, 3> accesses_{memory_access{a_.memory(), access_mode::read},
                                                 memory_access{b_.memory(), access_mode::read},
                                                 memory_access{c_.memory(), access_mode::write}};
    const command_info info_{"launch", accesses_};
    host_buffer<float> out_;
    idle_stream direct_;
    stream_interpreter& baseline_ = direct_;
};

void print_all(measured& each) {
    constexpr std::size_t launches = 100'000;
    const auto times =
        bench::medians({[&] { each.launches(launches); }, [&] { each.launches_without_waist(launches); }}, 50, 5);
    const double nanoseconds = 1e3 * (times[0] - times[1]) / launches;
    bench::print({"bookkeeping", "{\"accesses\": 3}", nanoseconds, "ns", std::nullopt, "host CPU"});
    constexpr std::size_t pipelines = 10'000;
    const auto whole = bench::medians({[&] { each.pipelines(pipelines); }}, 50, 5);
    bench::print({"bookkeeping", "{\"commands\": 5}", 1e3 * whole[0] / pipelines, "ns", std::nullopt, "host CPU"});
}

}  // namespace

int main(int count, char** arguments) {
    std::thread([] {}).join();  // makes the C library use real locks from now on, as in any threaded program
    auto* const state = new detail::runtime_state;
    state->devices.push_back(std::make_unique<device>(*state, "idle:0", std::make_unique<idle_device>()));
    {
        measured each(*state->devices[0]);
        if (count == 3) {
            const std::size_t times = std::strtoul(arguments[2], nullptr, 10);
            std::string_view(arguments[1]) == "launches" ? each.launches(times) : each.pipelines(times);
        } else {
            print_all(each);
        }
    }
    state->close();
    state->release();
}

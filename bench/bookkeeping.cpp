// What the waist costs the host for a launch that stays on its stream: a launch with two reads and one write
// on a stream whose interpreter does nothing, over the same call without the waist.
#include <array>
#include <thread>

#include "runtime/runtime_state.hpp"
#include "sluice/runtime/tensor.hpp"
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

// Takes commands and does nothing with them.
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
    ticket wait_for(stream_interpreter&, ticket upto) override { return upto; }
    std::unique_ptr<timed_mark> mark() override { return {}; }
    native_stream native() const noexcept override { return {device_kind::cpu, nullptr, nullptr}; }
    ticket passed() const noexcept override { return 0; }
    void poll() noexcept override {}
    void await(ticket, wait_mode) override {}

private:
    ticket count_ = 0;
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

}  // namespace

int main() {
    constexpr std::size_t launches = 100'000;
    std::thread([] {}).join();  // from now on the C library locks for real, as in any program with threads
    auto* const state = new detail::runtime_state;
    state->devices.push_back(std::make_unique<device>(*state, "idle:0", std::make_unique<idle_device>()));
    {
        stream_lease lease(*state->devices[0]);
        stream& on = *lease;
        const tensor<float> a(on, {64}), b(on, {64}), c(on, {64});
        const std::array accesses{memory_access{a.memory(), access_mode::read},
                                  memory_access{b.memory(), access_mode::read},
                                  memory_access{c.memory(), access_mode::write}};
        idle_stream direct;
        stream_interpreter& baseline = direct;
        const command_info info{"launch", accesses};
        const auto times = bench::medians({[&] {
                                               for (std::size_t i = 0; i < launches; ++i) on.launch(info, {});
                                           },
                                           [&] {
                                               for (std::size_t i = 0; i < launches; ++i) baseline.launch(info, {});
                                           }},
                                          50, 5);
        const double nanoseconds = 1e3 * (times[0] - times[1]) / launches;
        bench::print({"bookkeeping", "{\"accesses\": 3}", nanoseconds, "ns", std::nullopt, "host CPU"});
    }
    state->close();
    state->release();
}

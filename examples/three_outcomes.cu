// three_outcomes: an operation ends with its value, with an error of the device, or with an exception of somebody's
// code. Whoever waits for it is told which, and may recover.

#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <vector>

#include "sluice/sluice.hpp"

using namespace sluice;
using namespace std::chrono_literals;

namespace {

auto numbers() { return upload(std::vector<float>{1, 2, 3}).and_then(download); }

// Host code in stream order; it may throw.
auto checked_sum(float limit) {
    return numbers().and_then([limit](auto landed) {
        const auto add_up = [limit](std::vector<float> values) {
            float sum = 0;
            for (const float each : values) sum += each;
            if (sum > limit) throw std::range_error("the sum is over the limit");
            return sum;
        };
        return host_call(add_up, std::move(landed));
    });
}

// More than any device has.
auto too_much() {
    return zeros<float>({std::size_t{1} << 50}).transform([](tensor<float>) { return 0.f; });
}

template <typename Operation>
void tell(const char* what, Operation operation, scheduling_policy& pool) {
    try {
        const float value = sync(std::move(operation), pool);
        std::printf("%s: the value %g\n", what, static_cast<double>(value));
    } catch (const error& failure) {  // of Sluice: a device_error, out_of_memory, a deadline ...
        std::printf("%s: an error: %s\n", what, failure.code().message().c_str());
    } catch (const std::exception& failure) {  // of the code in the pipeline
        std::printf("%s: an exception: %s\n", what, failure.what());
    }
}

}  // namespace

int main() try {
    runtime machine;
    round_robin pool(machine.default_device(), 2);
    tell("a sum", checked_sum(10), pool);
    tell("a sum over the limit", checked_sum(5), pool);
    tell("too much memory", too_much(), pool);

    // To recover where it happens, in the pipeline: no thread waits to find out.
    tell("recovered", checked_sum(5).or_else([](std::exception_ptr) { return value(-1.f); }), pool);
    int attempts = 0;
    tell("tried again", retry(3, [&] { return checked_sum(++attempts < 3 ? 5.f : 10.f); }), pool);
    tell("in time", timeout(checked_sum(10), 10s), pool);
    tell("too late", give_up_at(checked_sum(10), std::chrono::steady_clock::now()), pool);
} catch (const std::exception& failure) {
    std::fprintf(stderr, "three_outcomes: %s\n", failure.what());
    return 1;
}

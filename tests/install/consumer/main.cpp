// SPDX-License-Identifier: Apache-2.0
// What users of the package rely on: errors, a kernel of their own, an operation of the library, and the simulator.
#include <iostream>
#include <sluice/sluice.hpp>
#include <stdexcept>

using sluice::tensor;

// In kernel.cu.
std::vector<float> twice(std::vector<float> values, sluice::scheduling_policy& pool);
int sum_where_it_stays(const std::vector<int>& values, sluice::device& on);

namespace {

void expect(bool holds, const char* what) {
    if (!holds) throw std::runtime_error(what);
}

auto sum_of(std::vector<float> values) {
    return sluice::upload(std::move(values))
        .and_then([](tensor<float> x) { return sluice::sum(std::move(x)); })
        .and_then(sluice::download);
}

}  // namespace

int main() try {
    try {
        throw sluice::error(sluice::errc::unsupported, "nothing to do");
    } catch (const sluice::error& problem) {
        expect(problem.code() == sluice::errc::unsupported, "an error keeps its code");
    }
    sluice::runtime machine;
    sluice::round_robin pool(machine.default_device(), 2);
    expect(twice({1, 2, 3}, pool) == std::vector<float>{2, 4, 6}, "a kernel runs");
    expect(sluice::sync(sum_of({1, 2, 3}), pool) == std::vector<float>{6}, "an operation runs");

    expect(sum_where_it_stays({1, 2, 3}, machine.default_device()) == 6, "a kernel that stays answers");

    const auto seen = sluice::sim::explore([] { return sum_of({1, 2, 3}); }, {.schedules = 100});
    seen.require_clean();
    expect(seen.schedules == 100, "the simulator runs every schedule");
    std::cout << "a kernel, an operation and " << seen.schedules << " schedules ran\n";
} catch (const std::exception& failure) {
    std::cerr << "consumer: " << failure.what() << '\n';
    return 1;
}

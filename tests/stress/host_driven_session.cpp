// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "sluice/op/cancellation.hpp"
#include "sluice/op/or_else.hpp"
#include "sluice/op/retry.hpp"
#include "sluice/op/transform.hpp"
#include "sluice/op/zip.hpp"
#include "sluice/runtime/device_future.hpp"
#include "sluice/runtime/host_call.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"
#include "stress/program.hpp"
#include "stress/sessions.hpp"

namespace sluice::stress {

namespace {

using namespace std::chrono_literals;

// The state to which the functions of one operation refer.
struct waiter {
    std::atomic<bool> is_gone{false};
    std::atomic<int> inside{0};
    std::atomic<int> late{0}, together{0};
};

// One call of such a function.
class call {
public:
    explicit call(waiter& of) : of_(of) {
        if (of_.is_gone) ++of_.late;
        if (of_.inside++ != 0) ++of_.together;
    }
    call(const call&) = delete;  // it counts one call
    call& operator=(const call&) = delete;
    ~call() { --of_.inside; }

private:
    waiter& of_;
};

struct plan {
    int failures = 0, attempts = 1;
    bool recovers = false;
    // The expected value; none if the operation must fail.
    std::optional<int> wanted() const {
        if (failures < attempts) return failures;
        if (recovers) return -1;
        return {};
    }
};

auto fails_at_first(const plan& how, std::shared_ptr<waiter> with) {
    const auto tries = std::make_shared<int>(0);
    return retry(how.attempts, [how, with, tries] {
        const call now(*with);
        const int before = (*tries)++;
        return host_call([how, before] {
            if (before < how.failures) throw std::runtime_error("as planned");
            return before;
        });
    });
}

auto host_driven(const plan& how, std::shared_ptr<waiter> with) {
    return fails_at_first(how, with).or_else([how, with](std::exception_ptr failure) {
        const call now(*with);
        if (!how.recovers) std::rethrow_exception(failure);
        return host_call([] { return -1; });
    });
}

plan random_plan(generator& numbers) {
    plan how;
    how.failures = static_cast<int>(below(numbers, 4));
    how.attempts = 1 + static_cast<int>(below(numbers, 4));
    how.recovers = below(numbers, 2) == 0;
    return how;
}

class host_driven_tester {
public:
    host_driven_tester(device& on, std::uint64_t seed, std::uint64_t session, report& found)
        : numbers_(seed), session_(session), found_(found), pool_(on, 2) {}

    void round() {
        const plan left = random_plan(numbers_), right = random_plan(numbers_);
        const auto with = std::make_shared<waiter>();
        std::optional<std::pair<int, int>> got;
        bool is_dropped = false;
        try {
            auto both = timeout(zip(host_driven(left, with), host_driven(right, with)), 1h);
            auto future = spawn(std::move(both), pool_);
            is_dropped = below(numbers_, 2) == 0;
            if (is_dropped) {
                if (below(numbers_, 2) == 0) std::this_thread::yield();
            } else {
                const auto [x, y] = std::move(future).get();
                got.emplace(x, y);
            }
        } catch (const std::runtime_error&) {
            is_dropped = false;
        }
        with->is_gone = true;
        kept_.push_back(with);
        found_.count("host-driven");
        if (is_dropped) return;
        const auto x = left.wanted(), y = right.wanted();
        const bool is_right = got ? x == got->first && y == got->second : !x || !y;
        if (!is_right) found_.failed(session_, "host-driven", "a wrong value or an unplanned failure");
    }

    // Called when everything that was submitted has completed.
    void finish() {
        int late = 0, together = 0;
        for (const auto& each : kept_) {
            late += each->late;
            together += each->together;
        }
        if (late != 0)
            found_.failed(session_, "host-driven",
                          std::to_string(late) + " functions were called after the wait had ended");
        if (together != 0)
            found_.failed(
                session_, "host-driven",
                std::to_string(together) + " functions ran concurrently with another function of their operation");
    }

private:
    generator numbers_;
    std::uint64_t session_;
    report& found_;
    round_robin pool_;
    std::vector<std::shared_ptr<waiter>> kept_;
};

}  // namespace

void run_host_driven(device&, const session_options& options, report& found) {
    generator numbers(options.seed);
    // A separate runtime: once it is destroyed, no late call is possible.
    std::optional<runtime> machine(runtime_options{.cpu_workers = 2});
    std::vector<std::unique_ptr<host_driven_tester>> testers;
    for (std::size_t i = 0; i < options.threads; ++i) {
        testers.push_back(
            std::make_unique<host_driven_tester>(machine->default_device(), numbers(), options.seed, found));
    }
    {
        std::vector<std::jthread> threads;
        for (const auto& each : testers) {
            threads.emplace_back([&found, &options, tester = each.get()] {
                try {
                    for (int i = 0; i < 100; ++i) tester->round();
                } catch (const std::exception& problem) {
                    found.failed(options.seed, "host-driven", problem.what());
                }
            });
        }
    }
    for (const auto& each : testers) each->finish();
}

}  // namespace sluice::stress

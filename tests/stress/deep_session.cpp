// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <ctime>
#include <exception>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <vector>

#include "sluice/kernels/arithmetic.hpp"
#include "sluice/kernels/elementwise.hpp"
#include "sluice/kernels/gemm.hpp"
#include "sluice/op/any_operation.hpp"
#include "sluice/op/share.hpp"
#include "sluice/op/value.hpp"
#include "sluice/op/with_context.hpp"
#include "sluice/op/zip.hpp"
#include "sluice/runtime/copy.hpp"
#include "sluice/runtime/device_future.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/runtime/transfer.hpp"
#include "stress/program.hpp"
#include "stress/sessions.hpp"

namespace sluice::stress {

namespace {

using some_operation = any_operation<tensor<float>>;
const shape one_element{1, 1};

some_operation number(float x) { return upload(values{x}, one_element); }

// Blocks the streams of an operation until it is completely submitted, so that no command completes before. Not on a
// GPU, whose driver may wait for the host call: for room in its queue, or to load a kernel.
class hold {
public:
    explicit hold(stream on) {
        if (on.owner().kind() == device_kind::cuda) return;
        on.host_call({"hold"}, {[open = open_] { open->wait(); }});
    }
    hold(const hold&) = delete;  // the latch is opened once
    hold& operator=(const hold&) = delete;
    ~hold() { open_->count_down(); }

private:
    std::shared_ptr<std::latch> open_ = std::make_shared<std::latch>(1);
};

float run_while_held(scheduling_policy& pool, std::function<some_operation()> make) {
    auto all = with_context([&](execution_context& context) {
        const hold until_submitted(context.stream());
        return download(make().submit(context)).submit(context);
    });
    return spawn(std::move(all), pool).get()[0];
}

// A chain of and_then, built at run time.
some_operation chain(std::size_t length) {
    some_operation x = number(0);
    for (std::size_t i = 0; i < length; ++i) {
        x = std::move(x).and_then([i](tensor<float> now) -> some_operation {
            if (i % 64 != 0) return value(std::move(now));
            return number(1).and_then(
                [now = std::move(now)](tensor<float> one) mutable { return add(std::move(now), std::move(one)); });
        });
    }
    return x;
}

// Each level reads the previous one twice.
some_operation diamonds(std::size_t depth) {
    auto x = share(number(1));
    for (std::size_t i = 0; i < depth; ++i) {
        auto left = x, right = x;
        some_operation sum =
            zip(std::move(left), std::move(right)).and_then([](shared_tensor<float> y, shared_tensor<float> z) {
                return copy(y).and_then([z](tensor<float> to) { return add(std::move(to), z); });
            });
        x = share(
            some_operation(std::move(sum).and_then([](tensor<float> now) { return scale(std::move(now), 0.5F); })));
    }
    return std::move(x).and_then([](shared_tensor<float> last) { return copy(last); });
}

// Two products, which may fail, then levels in which each value depends on both values of the previous level.
some_operation butterfly(std::size_t depth) {
    const auto product = [] {
        return zip(number(1), number(1)).and_then([](tensor<float> a, tensor<float> b) {
            return gemm(std::move(a), std::move(b));
        });
    };
    return zip(product(), product()).and_then([depth](tensor<float> left, tensor<float> right) {
        return with_context([depth, left = std::move(left),
                             right = std::move(right)](execution_context& context) mutable {
            for (std::size_t i = 0; i < depth; ++i) {
                const shared_tensor<float> x(std::move(left)), y(std::move(right));
                left = copy(x).and_then([y](tensor<float> to) { return multiply(std::move(to), y); }).submit(context);
                right = copy(y).and_then([x](tensor<float> to) { return multiply(std::move(to), x); }).submit(context);
            }
            return std::move(right);
        });
    });
}

}  // namespace

void run_deep(device& on, const session_options& options, report& found) {
    generator numbers(options.seed);
    round_robin pool(on, 1 + below(numbers, 3));
    const auto expect = [&](const char* what, std::size_t size, float wanted, auto run) {
        const std::string name = std::string(what) + " of " + std::to_string(size);
        try {
            const auto began = std::chrono::steady_clock::now();
            const std::clock_t cpu_began = std::clock();
            const float got = run();
            const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - began;
            // The process's, which may be little of what has passed where other processes run.
            const double cpu = static_cast<double>(std::clock() - cpu_began) / CLOCKS_PER_SEC;
            const double took = std::min(passed.count(), cpu);
            if (got != wanted)
                found.failed(options.seed, name, std::to_string(got) + " instead of " + std::to_string(wanted));
            // It takes milliseconds if each part is visited once, and minutes if each path to it is followed.
            if (took > 10) found.failed(options.seed, name, "took " + std::to_string(took) + " s");
        } catch (const std::exception& problem) {
            found.failed(options.seed, name, problem.what());
        }
        found.count("deep");
    };
    const std::size_t depth = 16 + below(numbers, 12);
    expect("diamonds", depth, 1, [&] { return run_while_held(pool, [&] { return diamonds(depth); }); });
    expect("a butterfly", depth, 1, [&] { return run_while_held(pool, [&] { return butterfly(depth); }); });
    const std::size_t length = 1000 + below(numbers, 50'000);
    expect("a chain", length, static_cast<float>((length + 63) / 64),
           [&] { return run_while_held(pool, [&] { return chain(length); }); });
}

}  // namespace sluice::stress

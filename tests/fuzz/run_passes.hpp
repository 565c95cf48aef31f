// SPDX-License-Identifier: Apache-2.0
// What the fuzzer, and a test with random bytes, do with one network: it must compute with the passes what it computes
// without them, or else std::logic_error is thrown.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/network_of_bytes.hpp"
#include "fuzz/shared_cpu.hpp"
#include "sluice/base/error.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::nn::fuzz {

[[noreturn]] inline void fails(const std::string& why) { throw std::logic_error(why); }

// A network, or what made it impossible.
struct attempt {
    std::optional<std::vector<any_tensor>> outputs;
    std::string refusal;
};
template <typename Run>
attempt tried(const Run& run) {
    try {
        return {run(), {}};
    } catch (const error& refused) {
        return {{}, refused.what()};
    }
}

// Without the passes: they look for constants, so these become inputs.
inline std::vector<any_tensor> step_by_step(model from, const any_tensor& x) {
    std::vector<any_tensor> inputs{x};
    for (auto at = from.body.constants.begin(); at != from.body.constants.end();) {
        const auto& [name, value] = *at;
        if (value.type != io::dtype::f32 || value.shape.empty()) {
            ++at;
            continue;
        }
        from.body.inputs.push_back({name, value.type, {}});
        inputs.emplace_back(value);
        at = from.body.constants.erase(at);
    }
    cpu& on = shared_cpu();
    return sync(sync(make_network(std::move(from)), on.pool).run(std::move(inputs)), on.pool);
}

inline void require_near(const any_tensor& got, const any_tensor& expected, bool by_numbers) {
    if (got.shape() != expected.shape() || got.type() != expected.type()) fails("another shape than without passes");
    if (!by_numbers || got.type() != io::dtype::f32) return;
    const auto a = got.values<float>(), b = expected.values<float>();
    float largest = 1;
    for (const float each : b) largest = std::max(largest, std::abs(each));
    if (!(largest < 1e6f)) return;
    for (std::size_t i = 0; i < a.size(); ++i) {
        if (std::isnan(b[i]) ? !std::isnan(a[i]) : !(std::abs(a[i] - b[i]) <= 1e-3f * largest))
            fails("element " + std::to_string(i) + " is " + std::to_string(a[i]) + ", without passes " +
                  std::to_string(b[i]));
    }
}

inline void run_passes(std::span<const std::byte> bytes) {
    const network_of_bytes made(bytes);
    std::size_t count = 1;
    for (const std::size_t each : made.input()) count *= each;
    std::vector<float> numbers(count);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::sin(0.3f + 0.9f * static_cast<float>(i));
    const any_tensor x(numbers, made.input());
    cpu& on = shared_cpu();

    const attempt expected = tried([&] { return step_by_step(made.made(), x); });
    std::optional<network> with_passes;
    const attempt got = tried([&] {
        check(made.made());
        with_passes.emplace(sync(make_network(made.made(), {.own = {}, .precision = made.precision()}), on.pool));
        return sync(with_passes->run({x}), on.pool);
    });
    if (expected.outputs.has_value() != got.outputs.has_value()) {
        fails(got.outputs ? "with the passes it runs, without them: " + expected.refusal
                          : "without the passes it runs, with them: " + got.refusal);
    }
    if (!got.outputs) return;
    const bool by_numbers = made.precision() == precision::f32 && !made.is_quantized();
    for (std::size_t i = 0; i < got.outputs->size(); ++i)
        require_near((*got.outputs)[i], (*expected.outputs)[i], by_numbers);

    // At once, before and after it is compiled.
    const std::vector<input_view> views{{x.type(), x.bytes().data(), x.shape()}};
    for (int i = 0; i < 3; ++i) {
        const std::vector<any_tensor> again = (*with_passes)(std::span(views));
        if (again.size() != got.outputs->size()) fails("another number of outputs at once");
        for (std::size_t k = 0; k < again.size(); ++k) require_near(again[k], (*got.outputs)[k], true);
    }
    static_cast<void>(with_passes->steps());
}

}  // namespace sluice::nn::fuzz

// SPDX-License-Identifier: Apache-2.0
// Elementwise operations, transpose and reductions on 256 MiB, measured by the bytes that they must move and compared
// with the device's own copy; add is also compared with a plain kernel by hand, and sums and maxima of all elements
// with cub. Each result is checked before timing.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cub/device/device_reduce.cuh>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "sluice/kernels/cast.hpp"
#include "sluice/kernels/reduce.hpp"
#include "sluice/kernels/transpose.hpp"
#include "sluice/sluice.hpp"
#include "support/by_hand.hpp"
#include "support/device_timing.hpp"
#include "support/result.hpp"

namespace sluice::bench {
namespace {

constexpr std::size_t bytes_of_input = std::size_t{1} << 28;

template <typename T>
inline constexpr const char* type_name = sizeof(T) == 4 ? "f32" : "bf16";

// Multiples of 1/8 below 8: exact in every type used here, and so are sums of two of them.
float value_at(std::size_t i) { return static_cast<float>(i * 2654435761u >> 11 & 63) / 8; }

template <typename T>
std::vector<T> values(std::size_t size) {
    std::vector<T> made;
    made.reserve(size);
    for (std::size_t i = 0; i < size; ++i) made.push_back(T(value_at(i)));
    return made;
}

__global__ void add_by_hand(float* x, const float* y, std::size_t count) {
    const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (i < count) x[i] += y[i];
}

class comparison {
public:
    explicit comparison(device& gpu) : gpu_(gpu), policy_(gpu), home_(policy_.next()) {}

    stream home() { return home_; }
    single_stream& policy() { return policy_; }
    cudaStream_t native() { return static_cast<cudaStream_t>(home_.native().handle); }

    // Prints the rate of `ours`, compared once with a copy of as many bytes and once with each of the others.
    struct other {
        std::string name;
        std::function<void()> run;
    };
    void measure(const std::string& what, const std::string& of, std::size_t bytes, std::function<void()> ours,
                 const std::vector<other>& others = {}) {
        const auto from = make_device<unsigned char>(bytes / 2), to = make_device<unsigned char>(bytes / 2);
        std::vector<std::function<void()>> versions{
            std::move(ours),
            [&] { check(cudaMemcpyAsync(to.get(), from.get(), bytes / 2, cudaMemcpyDeviceToDevice, native())); }};
        for (const other& each : others) versions.push_back(each.run);
        const auto times = device_medians(native(), versions, 5);
        const auto rate = [&](std::size_t version) { return static_cast<double>(bytes) / times[version] / 1e3; };
        for (std::size_t i = 1; i < versions.size(); ++i) {
            const std::string baseline = i == 1 ? "copy on the device" : others[i - 2].name;
            print({"elementwise",
                   "{\"what\": \"" + what + "\", \"of\": \"" + of + "\", \"baseline\": \"" + baseline + "\"}", rate(0),
                   "GB/s", rate(i), gpu_.properties().name});
        }
    }

    // Every element must be the expected one.
    template <typename T, typename Expected>
    void require(const std::string& what, const tensor<T>& got, Expected expected) {
        std::vector<T> elements(got.size());
        check(cudaStreamSynchronize(native()));
        check(cudaMemcpy(elements.data(), got.device_data(), got.size_bytes(), cudaMemcpyDeviceToHost));
        for (std::size_t i = 0; i < elements.size(); ++i) {
            const double wanted = expected(i);
            if (!(std::fabs(static_cast<double>(elements[i]) - wanted) <= 1e-6 * std::fabs(wanted))) {
                throw std::runtime_error("wrong: " + what + " at " + std::to_string(i));
            }
        }
    }

private:
    device& gpu_;
    single_stream policy_;
    stream home_;
};

template <typename T>
void compare_arithmetic(comparison& all) {
    constexpr std::size_t size = bytes_of_input / sizeof(T);
    auto x = sync(upload(values<T>(size)), all.policy());
    const auto y = sync(upload(values<T>(size)), all.policy());
    const std::string of = std::string(type_name<T>) + " [" + std::to_string(size) + "]";
    combine(all.home(), arithmetic::add, x, y);
    all.require("add", x, [](std::size_t i) { return 2 * value_at(i); });
    std::vector<comparison::other> others;
    if constexpr (sizeof(T) == 4) {
        others.push_back({"a kernel by hand, an element a thread", [&] {
                              add_by_hand<<<static_cast<unsigned>((size + 255) / 256), 256, 0, all.native()>>>(
                                  x.device_data(), y.device_data(), size);
                          }});
    }
    all.measure("add", of, 3 * bytes_of_input, [&] { combine(all.home(), arithmetic::add, x, y); }, others);
    auto z = sync(upload(values<T>(size)), all.policy());
    scale(all.home(), z, 0.5f);
    all.require("scale", z, [](std::size_t i) { return value_at(i) / 2; });
    all.measure("scale", of, 2 * bytes_of_input, [&] { scale(all.home(), z, 0.5f); });
}

template <typename From, typename To>
void compare_cast(comparison& all) {
    const std::size_t size = bytes_of_input / std::max(sizeof(From), sizeof(To));
    const auto x = sync(upload(values<From>(size)), all.policy());
    auto out = sync(zeros<To>({size}), all.policy());
    cast(all.home(), x, out);
    all.require("cast", out, value_at);
    all.measure("cast", std::string(type_name<From>) + " to " + type_name<To> + " [" + std::to_string(size) + "]",
                x.size_bytes() + out.size_bytes(), [&] { cast(all.home(), x, out); });
}

template <typename T>
void compare_transpose(comparison& all, std::size_t rows) {
    const std::size_t columns = bytes_of_input / sizeof(T) / rows, size = rows * columns;
    const auto x = sync(upload(values<T>(size), {rows, columns}), all.policy());
    auto out = sync(zeros<T>({columns, rows}), all.policy());
    transpose(all.home(), x, out);
    all.require("transpose", out, [=](std::size_t i) { return value_at(i % rows * columns + i / rows); });
    all.measure("transpose", type_name<T> + (" " + to_string(x.shape())), 2 * x.size_bytes(),
                [&] { transpose(all.home(), x, out); });
}

// The expected reduction of a row: all values are positive, so that sums are not small.
template <reduction What>
double expected_of_row(std::size_t row, std::size_t columns) {
    double sum = 0, largest = -1;
    std::size_t place = 0;
    for (std::size_t i = 0; i < columns; ++i) {
        const double x = value_at(row * columns + i);
        sum += x;
        if (x > largest) {
            largest = x;
            place = i;
        }
    }
    return What == reduction::sum ? sum : What == reduction::max ? largest : static_cast<double>(place);
}

template <reduction What, typename T>
void compare_reduction(comparison& all, const std::string& what, std::size_t columns,
                       const std::vector<comparison::other>& others = {}) {
    const std::size_t rows = bytes_of_input / sizeof(T) / columns;
    const auto x = sync(upload(values<T>(rows * columns), {rows, columns}), all.policy());
    auto out = sync(zeros<reduced<What, T>>({rows}), all.policy());
    reduce<What>(all.home(), x, out);
    all.require(what, out, [=](std::size_t row) { return expected_of_row<What>(row, columns); });
    all.measure(
        what, type_name<T> + (" " + to_string(x.shape())), rows * columns * sizeof(T),
        [&] { reduce<What>(all.home(), x, out); }, others);
}

void compare_with_cub(comparison& all) {
    constexpr std::size_t size = bytes_of_input / sizeof(float);
    const auto x = sync(upload(values<float>(size)), all.policy());
    auto out = sync(zeros<float>({1}), all.policy());
    std::size_t sum_bytes = 0, max_bytes = 0;
    check(cub::DeviceReduce::Sum(nullptr, sum_bytes, x.device_data(), out.device_data(), size, all.native()));
    check(cub::DeviceReduce::Max(nullptr, max_bytes, x.device_data(), out.device_data(), size, all.native()));
    const auto scratch = make_device<unsigned char>(std::max(sum_bytes, max_bytes));
    const auto sum = [&] {
        check(cub::DeviceReduce::Sum(scratch.get(), sum_bytes, x.device_data(), out.device_data(), size, all.native()));
    };
    const auto max = [&] {
        check(cub::DeviceReduce::Max(scratch.get(), max_bytes, x.device_data(), out.device_data(), size, all.native()));
    };
    sum();
    all.require("cub's sum", out, [](std::size_t) { return expected_of_row<reduction::sum>(0, size); });
    compare_reduction<reduction::sum, float>(all, "sum", size, {{"cub", sum}});
    compare_reduction<reduction::max, float>(all, "max", size, {{"cub", max}});
}

}  // namespace

void compare_all() {
    runtime machine;
    comparison all(machine.find("cuda:0"));
    compare_arithmetic<float>(all);
    compare_arithmetic<bfloat16>(all);
    compare_cast<float, bfloat16>(all);
    compare_cast<bfloat16, float>(all);
    compare_transpose<float>(all, 8192);
    compare_transpose<float>(all, 8191);
    compare_transpose<bfloat16>(all, 8192);
    compare_with_cub(all);
    compare_reduction<reduction::sum, bfloat16>(all, "sum", bytes_of_input / sizeof(bfloat16));
    compare_reduction<reduction::argmax, float>(all, "argmax", bytes_of_input / sizeof(float));
    for (const std::size_t columns : {10, 64, 1000, 1024, 8192, 1 << 20}) {
        compare_reduction<reduction::sum, float>(all, "sum", columns);
        compare_reduction<reduction::sum, bfloat16>(all, "sum", columns);
        compare_reduction<reduction::argmax, float>(all, "argmax", columns);
    }
}

}  // namespace sluice::bench

int main() try { sluice::bench::compare_all(); } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}

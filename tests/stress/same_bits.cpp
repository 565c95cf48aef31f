// SPDX-License-Identifier: Apache-2.0
// Runs networks again and again with several workers of a CPU device, and compares each answer bit for bit with the one
// of a single worker. What threads do to each other shows in some runs only, and with more threads than cores first.
//
//     same_bits [--times N] [--workers N,N...] [--seed S] FILE.onnx...     these networks, and those in these folders
//     same_bits [--times N] [--workers N,N...] [--seed S] --stretches SECONDS   stretches of convolutions at random
//
// The workers are 2 and 4, the times 20 (of a stretch 3). A folder with test_data_set_0 gives its own inputs; others
// are random numbers. Dimensions without a length are tried with several lengths. Prints a line for each network that
// differs or cannot be run, and the counts; exits with 1 when one differs, or when none could be run.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "nn/onnx_case_data.hpp"
#include "nn/random_images.hpp"
#include "sluice/base/half.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/nn/onnx.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"

namespace {

namespace fs = std::filesystem;
namespace nn = sluice::nn;
using nn::any_tensor;

struct settings {
    std::size_t times = 0;  // 0: the usual number
    std::vector<std::size_t> workers{2, 4};
    unsigned seed = 1;
    double stretch_seconds = 0;
    std::vector<fs::path> files;
};

// A device of that many workers.
struct machine {
    explicit machine(std::size_t workers)
        : count(workers),
          owner(sluice::runtime_options{.cpu_workers = workers, .cuda = false}),
          pool(owner.find("cpu:0"), 2) {}

    std::size_t count;
    sluice::runtime owner;
    sluice::round_robin pool;
};

std::string place_of(const any_tensor& expected, const any_tensor& got) {
    if (expected.type() != got.type() || expected.shape() != got.shape())
        return "is " + to_string(got) + " and not " + to_string(expected);
    const auto a = expected.bytes(), b = got.bytes();
    std::size_t count = 0, first = 0, last = 0;
    const std::size_t size = sluice::io::size_of(expected.type());
    for (std::size_t i = 0; i < expected.elements(); ++i) {
        if (std::memcmp(a.data() + i * size, b.data() + i * size, size) == 0) continue;
        if (count++ == 0) first = i;
        last = i;
    }
    return std::to_string(count) + " elements of " + to_string(expected) + " differ, from " + std::to_string(first) +
           " to " + std::to_string(last);
}

class tester {
public:
    explicit tester(const settings& of) {
        for (const std::size_t each : of.workers) others_.push_back(std::make_unique<machine>(each));
    }

    // Prints what differs.
    void compare(const std::string& name, const nn::model& from, const std::vector<any_tensor>& inputs,
                 std::size_t times) {
        const auto expected = answers_of(from, inputs, one_);
        ++compared_;
        for (const auto& each : others_) {
            const nn::network made = sync(nn::make_network(from), each->pool);
            for (std::size_t i = 0; i < times; ++i) {
                const auto got = sync(made.run(inputs), each->pool);
                for (std::size_t out = 0; out < got.size(); ++out) {
                    if (std::ranges::equal(got[out].bytes(), expected[out].bytes())) continue;
                    std::cout << "DIFFERS: " << name << " with " << each->count << " workers, run " << i + 1
                              << ": output " << out << ": " << place_of(expected[out], got[out]) << std::endl;
                    ++different_;
                    return;
                }
            }
        }
    }
    void note_left_out(const std::string& name, const std::string& why) {
        ++left_out_;
        std::cout << "left out: " << name << ": " << why << std::endl;
    }
    // The exit status.
    int end() const {
        std::cout << compared_ << " networks compared, " << different_ << " differ, " << left_out_ << " left out"
                  << std::endl;
        return different_ != 0 || compared_ == 0;
    }
    machine& one() noexcept { return one_; }

private:
    static std::vector<any_tensor> answers_of(const nn::model& from, const std::vector<any_tensor>& inputs,
                                              machine& with) {
        return sync(sync(nn::make_network(from), with.pool).run(inputs), with.pool);
    }

    machine one_{1};
    std::vector<std::unique_ptr<machine>> others_;
    std::size_t compared_ = 0, different_ = 0, left_out_ = 0;
};

// Small numbers; integers are 0 or 1.
any_tensor random_tensor(sluice::io::dtype type, std::vector<std::size_t> shape, std::mt19937& random) {
    using enum sluice::io::dtype;
    std::byte* to = nullptr;
    any_tensor made = any_tensor::make_on_host(type, std::move(shape), to);
    const std::size_t size = sluice::io::size_of(type);
    const auto put = [&](std::size_t at, auto value) { std::memcpy(to + at * size, &value, size); };
    for (std::size_t i = 0; i < made.elements(); ++i) {
        const float small = static_cast<float>(static_cast<int>(random() % 257) - 128) / 128.0f;
        switch (type) {
            case f16: put(i, sluice::half(small)); break;
            case bf16: put(i, sluice::bfloat16(small)); break;
            case f32: put(i, small); break;
            case f64: put(i, double{small}); break;
            default: put(i, std::uint64_t{random() % 2}); break;  // the low bytes come first
        }
    }
    return made;
}

// The lengths of dimensions without one are tried in this order.
constexpr std::size_t lengths_to_try[] = {8, 4, 16, 32, 1, 64};

std::vector<any_tensor> random_inputs(const nn::network& of, std::size_t length, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<any_tensor> made;
    for (const nn::value_info& each : of.inputs()) {
        std::vector<std::size_t> shape;
        for (const nn::dimension& one : each.shape.value()) shape.push_back(one.length.value_or(length));
        made.push_back(random_tensor(each.type, std::move(shape), random));
    }
    return made;
}

void compare_file(tester& with, const fs::path& file, const settings& of) {
    const std::string name = file.string();
    std::string why;
    try {
        const nn::model model = nn::load_onnx(file);
        const fs::path data = file.parent_path() / "test_data_set_0";
        const nn::network network = sync(nn::make_network(model), with.one().pool);
        const std::size_t times = of.times != 0 ? of.times : 20;
        if (fs::exists(data)) {
            auto inputs = nn::test_support::read_all(data, "input", nn::text_codes(model.texts));
            if (inputs.size() > network.inputs().size()) inputs.resize(network.inputs().size());
            return with.compare(name, model, inputs, times);
        }
        for (const std::size_t length : lengths_to_try) {
            std::vector<any_tensor> inputs;
            try {
                inputs = random_inputs(network, length, of.seed);
                static_cast<void>(network.infer(inputs));
                static_cast<void>(sync(network.run(inputs), with.one().pool));
            } catch (const std::exception& refusal) {
                if (why.empty()) why = refusal.what();
                continue;
            }
            return with.compare(name, model, inputs, times);
        }
    } catch (const nn::test_support::refused& because) {
        why = because.why;
    } catch (const std::exception& failure) {
        why = failure.what();
    }
    with.note_left_out(name, why);
}

void compare_files(tester& with, const settings& of) {
    std::vector<fs::path> files;
    for (const fs::path& each : of.files) {
        if (!fs::is_directory(each)) {
            files.push_back(each);
            continue;
        }
        for (const auto& found : fs::recursive_directory_iterator(each))
            if (found.path().extension() == ".onnx") files.push_back(found.path());
    }
    std::ranges::sort(files);
    for (const fs::path& each : files) compare_file(with, each, of);
}

// Small ones, as the tests have them; some whose last steps several images take together; many images; and long rows.
void compare_stretches(tester& with, const settings& of) {
    constexpr nn::test_support::image_limits limits[] = {
        {},
        {.images = {4, 9},
         .channels = {64, 200},
         .pixels = {8, 28},
         .filters = {100, 330},
         .joined_channels = 600,
         .steps = 4},
        {.images = {3, 40}, .channels = {1, 16}, .pixels = {8, 64}, .filters = {1, 48}},
        {.channels = {1, 100}, .pixels = {100, 3000}, .filters = {1, 130}, .steps = 6, .are_rows = true}};
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(of.stretch_seconds);
    for (unsigned seed = of.seed; std::chrono::steady_clock::now() < end; ++seed) {
        nn::test_support::random_images images(seed, limits[seed % std::size(limits)]);
        const nn::model made = images.make();
        with.compare("stretch " + std::to_string(seed), made, {nn::test_support::pixels(images.input())},
                     of.times != 0 ? of.times : 3);
    }
}

[[noreturn]] void refuse(const std::string& why) {
    std::cerr << "same_bits: " << why << "; the options are at the top of tests/stress/same_bits.cpp\n";
    std::exit(2);
}

settings read_settings(int count, char** words) {
    settings made;
    for (int i = 1; i < count; ++i) {
        const std::string word = words[i];
        if (!word.starts_with("--")) {
            if (!fs::exists(word)) refuse("there is no " + word);
            made.files.emplace_back(word);
            continue;
        }
        if (i + 1 == count) refuse(word + " needs a value");
        const std::string value = words[++i];
        if (word == "--times") {
            made.times = std::strtoul(value.c_str(), nullptr, 10);
        } else if (word == "--seed") {
            made.seed = static_cast<unsigned>(std::strtoul(value.c_str(), nullptr, 10));
        } else if (word == "--stretches") {
            made.stretch_seconds = std::strtod(value.c_str(), nullptr);
        } else if (word == "--workers") {
            made.workers.clear();
            for (std::size_t at = 0; at < value.size();) {
                std::size_t used = 0;
                made.workers.push_back(std::stoul(value.substr(at), &used));
                at += used + 1;
            }
        } else {
            refuse(word + " is not known");
        }
    }
    if (made.files.empty() == (made.stretch_seconds <= 0)) refuse("files, or --stretches");
    return made;
}

}  // namespace

int main(int count, char** words) {
    const settings of = read_settings(count, words);
    tester with(of);
    if (of.files.empty()) {
        compare_stretches(with, of);
    } else {
        compare_files(with, of);
    }
    return with.end();
}

// SPDX-License-Identifier: Apache-2.0
// Runs the test cases of the onnx package (tools/onnx_backend_cases.py) and compares with the list of what passes.
//
//     onnx_cases FOLDER LIST [cpu:0|cuda:0] [--only TEXT] [--write]
//
// Each line of LIST is a case and its result: "node/test_abs passed", or "... refused: " and the reason. A case that
// gives something else than its line, or has none, is a failure; so is a line without a case. --write writes LIST
// again: but a case that gave a wrong answer is never listed.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "nn/onnx_case_data.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/graph/executable_graph.hpp"
#include "sluice/io/write_file.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/nn/onnx.hpp"
#include "sluice/runtime/detail/closure.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"

namespace {

namespace fs = std::filesystem;
using sluice::nn::any_tensor;
using sluice::nn::test_support::read_all;
using sluice::nn::test_support::refused;

std::vector<double> numbers_of(const any_tensor& of) {
    std::vector<double> numbers(of.elements());
    const auto from = of.bytes();
    const auto read = [&]<typename T>() {
        for (std::size_t i = 0; i < numbers.size(); ++i) {
            T value;
            std::memcpy(&value, from.data() + i * sizeof(T), sizeof(T));
            if constexpr (std::is_arithmetic_v<T>) {
                numbers[i] = static_cast<double>(value);
            } else {
                numbers[i] = static_cast<float>(value);
            }
        }
    };
    using enum sluice::io::dtype;
    switch (of.type()) {
        case f16: read.operator()<sluice::half>(); break;
        case bf16: read.operator()<sluice::bfloat16>(); break;
        case f32: read.operator()<float>(); break;
        case f64: read.operator()<double>(); break;
        case i8: read.operator()<std::int8_t>(); break;
        case boolean:
        case u8: read.operator()<std::uint8_t>(); break;
        case i16: read.operator()<std::int16_t>(); break;
        case u16: read.operator()<std::uint16_t>(); break;
        case i32: read.operator()<std::int32_t>(); break;
        case u32: read.operator()<std::uint32_t>(); break;
        case i64: read.operator()<std::int64_t>(); break;
        case u64: read.operator()<std::uint64_t>(); break;
    }
    return numbers;
}

// Two units in the last place of a number of 16 bits: the expected numbers were rounded after each step.
double rounding_of(sluice::io::dtype type) {
    switch (type) {
        case sluice::io::dtype::f16: return 0x1p-9;
        case sluice::io::dtype::bf16: return 0x1p-6;
        default: return 0;
    }
}

// What is wrong with an answer; empty for nothing.
std::string difference(const any_tensor& expected, const any_tensor& answer, double absolute, double relative) {
    if (expected.type() != answer.type() || expected.shape() != answer.shape())
        return "is " + to_string(answer) + " and not " + to_string(expected);
    const auto a = numbers_of(expected), b = numbers_of(answer);
    relative = std::max(relative, rounding_of(expected.type()));
    for (std::size_t i = 0; i < a.size(); ++i) {
        if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
        if (std::abs(a[i] - b[i]) <= absolute + relative * std::abs(b[i])) continue;
        return "element " + std::to_string(i) + " is " + std::to_string(b[i]) + " and not " + std::to_string(a[i]);
    }
    return {};
}

double number_in(const fs::path& file, const std::string& name, double otherwise) {
    std::ifstream in(file);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const auto at = text.find('"' + name + "\":");
    return at == std::string::npos ? otherwise : std::stod(text.substr(at + name.size() + 3));
}

// Its outputs are random numbers: only their types and shapes can be compared.
bool is_random(const sluice::nn::graph& body) {
    return std::ranges::any_of(body.nodes, [](const sluice::nn::node& each) {
        return each.op == "Bernoulli" || each.op == "Multinomial" || each.op.starts_with("Random");
    });
}

std::string on_one_line(std::string text) {
    std::ranges::replace(text, '\n', ' ');
    return text;
}

class cases {
public:
    explicit cases(sluice::device& on) : pool_(on, 2) {}

    // "passed", "refused: why", or "WRONG: why".
    std::string result_of(const fs::path& folder) {
        try {
            return try_case(folder);
        } catch (const refused& because) {
            return "refused: " + because.why;
        } catch (const sluice::file_error& failure) {
            // Without the path.
            const std::string text = failure.what(), path = failure.path().string();
            const auto at = text.find(path);
            const std::string why = at == std::string::npos ? text : text.substr(at + path.size() + 2);
            return (failure.code() == sluice::errc::unsupported || is_reading_ ? "refused: " : "WRONG: ") +
                   on_one_line(why);
        } catch (const sluice::error& failure) {
            return (failure.code() == sluice::errc::unsupported ? "refused: " : "WRONG: ") +
                   on_one_line(failure.what());
        } catch (const std::exception& failure) {
            return std::string("WRONG: ") + failure.what();
        }
    }

private:
    std::string try_case(const fs::path& folder) {
        double absolute = number_in(folder / "data.json", "atol", 1e-7);
        // The expected numbers of these two are sums in f32 that are off by 2e-7 where the exact number is 0.
        if (folder.filename().string().starts_with("test_dft_inverse")) absolute = 1e-6;
        const double relative = number_in(folder / "data.json", "rtol", 1e-3);
        is_reading_ = true;
        auto model = sluice::nn::load_onnx(folder / "model.onnx");
        is_reading_ = false;
        const sluice::nn::text_codes codes(model.texts);
        const bool has_random_outputs = is_random(model.body);
        const auto network = sync(sluice::nn::make_network(std::move(model)), pool_);
        std::size_t sets = 0;
        for (; fs::exists(folder / ("test_data_set_" + std::to_string(sets))); ++sets) {
            const fs::path data = folder / ("test_data_set_" + std::to_string(sets));
            // A constant that is an input too may have data: it is the constant.
            auto inputs = read_all(data, "input", codes);
            if (inputs.size() > network.inputs().size()) inputs.resize(network.inputs().size());
            const auto expected = read_all(data, "output", codes);
            const auto answers = sync(network.run(inputs), pool_);
            if (answers.size() != expected.size()) return "WRONG: " + std::to_string(answers.size()) + " outputs";
            const auto shapes = network.infer(inputs);
            for (std::size_t i = 0; i < answers.size(); ++i) {
                const std::string why = has_random_outputs && to_string(expected[i]) == to_string(answers[i])
                                            ? ""
                                            : difference(expected[i], answers[i], absolute, relative);
                if (!why.empty()) return "WRONG: output " + std::to_string(i) + ": " + why;
                if (shapes[i].shape() != answers[i].shape() || shapes[i].type() != answers[i].type())
                    return "WRONG: output " + std::to_string(i) + ": is inferred as " + to_string(shapes[i]);
            }
            if (has_random_outputs) continue;
            const std::string why = try_compiled(network, inputs, answers);
            if (!why.empty()) return "WRONG: " + why;
        }
        if (sets == 0) return "refused: no data";
        return has_random_outputs ? "passed: types and shapes only, since the numbers are random" : "passed";
    }

    // A graph of the network has to give the same bytes, and must not be recorded again when it is launched.
    std::string try_compiled(const sluice::nn::network& network, const std::vector<any_tensor>& inputs,
                             const std::vector<any_tensor>& answers) {
        const auto recordings = std::make_shared<std::size_t>(0);
        const auto fast = compile(pool_, [=] {
            ++*recordings;
            return network.run(inputs);
        });
        static_cast<void>(sync(fast(), pool_));
        const std::size_t before = *recordings;
        for (int launch = 0; launch < 2; ++launch) {
            const auto again = sync(fast(), pool_);
            for (std::size_t i = 0; i < answers.size(); ++i) {
                if (!std::ranges::equal(again[i].bytes(), answers[i].bytes()))
                    return "compiled: output " + std::to_string(i) + " is another one";
            }
        }
        // With other compilers that is possible (closure.hpp).
        if (sluice::detail::compiler_clears_padding && *recordings != before)
            return "compiled: it is recorded again at each launch";
        return {};
    }

    sluice::round_robin pool_;
    bool is_reading_ = false;
};

// Answers that differ with some kernels of oneDNN, and why: listed as passed, and no failure on a CPU.
const std::map<std::string, std::string> known_differences = {
    {"light/light_squeezenet",
     "differs: a softmax of 1000 numbers near 1e10 that are equal but for rounding, which the expected answer has "
     "alike in all channels; not all kernels of oneDNN round all channels alike"},
};

std::map<std::string, std::string> read_list(const fs::path& path) {
    std::map<std::string, std::string> listed;
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) {
        if (line.empty() || line[0] == '#') continue;
        const auto space = line.find(' ');
        listed[line.substr(0, space)] = line.substr(space + 1);
    }
    return listed;
}

}  // namespace

int main(int count, char** arguments) {
    std::vector<std::string> words(arguments + 1, arguments + count);
    std::string device = "cpu:0", only;
    bool writes = false;
    std::vector<std::string> paths;
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (words[i] == "--write") {
            writes = true;
        } else if (words[i] == "--only" && i + 1 < words.size()) {
            only = words[++i];
        } else if (words[i].find(':') != std::string::npos) {
            device = words[i];
        } else {
            paths.push_back(words[i]);
        }
    }
    if (paths.size() != 2) {
        std::cerr << "usage: onnx_cases FOLDER LIST [DEVICE] [--only TEXT] [--write]\n";
        return 2;
    }
    if (!fs::exists(fs::path(paths[0]) / "node")) {
        std::cout << "the cases are not in " << paths[0] << ": scripts/onnx_cases writes them\n";
        return 77;
    }
    sluice::runtime machine(sluice::runtime_options{.cuda = device.starts_with("cuda")});
    cases all(machine.find(device));
    auto listed = read_list(paths[1]);
    std::map<std::string, std::string> results;
    std::map<std::string, std::size_t> counts;
    std::size_t failures = 0;
    for (const char* const kind : {"node", "simple", "pytorch-operator", "pytorch-converted", "light"}) {
        std::set<fs::path> folders;
        for (const auto& each : fs::directory_iterator(fs::path(paths[0]) / kind)) folders.insert(each.path());
        for (const fs::path& folder : folders) {
            const std::string name = std::string(kind) + "/" + folder.filename().string();
            if (name.find(only) == std::string::npos) continue;
            if (!only.empty()) std::cerr << name << '\n';
            std::string result = all.result_of(folder);
            const auto known = known_differences.find(name);
            const bool may_differ = known != known_differences.end() && device.starts_with("cpu");
            if (may_differ && result.starts_with("WRONG")) {
                std::cout << name << " " << known->second << '\n';
                result = "passed";
                ++counts["known to differ"];
            }
            ++counts[std::string(kind) + " " + result.substr(0, result.find(':'))];
            const bool is_wrong = result.starts_with("WRONG");
            const auto line = listed.find(name);
            const bool is_listed = line != listed.end() && line->second == result;
            if (line != listed.end()) listed.erase(line);
            if (!is_wrong) results[name] = result;
            if (is_wrong || (!writes && !is_listed)) {
                ++failures;
                std::cout << name << " " << result << '\n';
            }
        }
    }
    for (const auto& [what, number] : counts) std::cout << what << ": " << number << '\n';
    if (only.empty() && !writes) {
        for (const auto& [name, result] : listed) {
            ++failures;
            std::cout << name << " is listed, and there is no such case\n";
        }
    }
    if (writes) {
        std::string text = "# Written by onnx_cases --write.\n";
        for (const auto& [name, result] : results) text += name + " " + result + '\n';
        sluice::io::write_file(paths[1], [&](std::ostream& to) { to << text; });
    }
    std::cout << failures << " failures\n";
    return failures == 0 ? 0 : 1;
}

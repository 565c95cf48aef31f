// SPDX-License-Identifier: Apache-2.0
// One call of a multi-layer perceptron by plain oneDNN, without Sluice: a matmul primitive for each layer, with bias
// and ReLU in it, weights packed once as the primitive wants them, and all memory made before the first call.
//
//     bench_onednn_perceptron NUMBERS ROWS SECONDS THREADS OUTPUTS WIDTH WIDTH...
//
// NUMBERS has the f32 weights of each layer, [inputs, outputs], and then its biases. Prints {"onednn": microseconds,
// "mean": microseconds, "threads": N}: the median, and the mean of as many calls once more, with THREADS
// threads or with one, whichever a trial found faster (a batch of few rows is slower on several). OUTPUTS gets the
// outputs. network_peers.py and network_throughput.py call it in turn with other runtimes, and have the same inputs.
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <oneapi/dnnl/dnnl.hpp>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

using dnnl::memory;
using tag = dnnl::memory::format_tag;
using numbers = std::vector<float>;

numbers take(std::ifstream& from, std::size_t count) {
    numbers made(count);
    from.read(reinterpret_cast<char*>(made.data()), static_cast<std::streamsize>(count * sizeof(float)));
    if (!from) throw std::runtime_error("the numbers are too short for the widths");
    return made;
}

dnnl::matmul::primitive_desc describe(const dnnl::engine& on, const memory::desc& source, const memory::desc& weights,
                                      const memory::desc& bias, const memory::desc& out, bool has_relu) {
    dnnl::post_ops after;
    dnnl::primitive_attr attributes;
#if DNNL_VERSION_MAJOR == 2
    if (has_relu) after.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
    attributes.set_post_ops(after);
    return {{source, weights, bias, out}, attributes, on};
#else
    if (has_relu) after.append_eltwise(dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
    attributes.set_post_ops(after);
    return {on, source, weights, bias, out, attributes};
#endif
}

class perceptron {
public:
    // Made for the number of threads that OpenMP has now: oneDNN divides the work when it makes a primitive.
    perceptron(const std::string& path, const std::vector<memory::dim>& widths, memory::dim rows) {
        std::ifstream file(path, std::ios::binary);
        values_.push_back(memory({{rows, widths[0]}, memory::data_type::f32, tag::ab}, engine_));
        for (std::size_t i = 0; i + 1 < widths.size(); ++i)
            add_layer(file, widths[i], widths[i + 1], rows, i + 2 == widths.size());
    }

    // From inputs in host memory to outputs there; the memory of both is the caller's.
    void operator()(const float* inputs, float* outputs) {
        values_.front().set_data_handle(const_cast<float*>(inputs));  // only read
        values_.back().set_data_handle(outputs);
        for (const auto& [layer, arguments] : layers_) layer.execute(stream_, arguments);
        stream_.wait();
    }

private:
    void add_layer(std::ifstream& file, memory::dim in, memory::dim out, memory::dim rows, bool is_last) {
        const auto f32 = memory::data_type::f32;
        const memory::desc plain({in, out}, f32, tag::ab), biases({1, out}, f32, tag::ab),
            made({rows, out}, f32, tag::ab);
        const auto chosen = describe(engine_, values_.back().get_desc(), memory::desc({in, out}, f32, tag::any), biases,
                                     made, !is_last);
        numbers weights = take(file, static_cast<std::size_t>(in * out));
        const numbers bias = take(file, static_cast<std::size_t>(out));
        memory packed(chosen.weights_desc(), engine_), from(plain, engine_, weights.data()), added(biases, engine_);
        dnnl::reorder(from, packed).execute(stream_, from, packed);
        std::copy(bias.begin(), bias.end(), static_cast<float*>(added.get_data_handle()));
        stream_.wait();
        const memory source = values_.back();
        values_.push_back(memory(made, engine_));
        layers_.emplace_back(dnnl::matmul(chosen), std::unordered_map<int, memory>{{DNNL_ARG_SRC, source},
                                                                                   {DNNL_ARG_WEIGHTS, packed},
                                                                                   {DNNL_ARG_BIAS, added},
                                                                                   {DNNL_ARG_DST, values_.back()}});
    }

    dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
    dnnl::stream stream_{engine_};
    std::vector<memory> values_;  // inputs, and what each layer gives
    std::vector<std::pair<dnnl::matmul, std::unordered_map<int, memory>>> layers_;
};

struct duration_of_a_call {
    double median, mean;  // microseconds
};

template <typename Call>
duration_of_a_call time_of(double seconds, const Call& call) {
    using clock = std::chrono::steady_clock;
    for (int i = 0; i < 3; ++i) call();
    std::vector<double> times;
    const auto begin = clock::now();
    while (times.size() < 5 || clock::now() - begin < std::chrono::duration<double>(seconds)) {
        const auto start = clock::now();
        call();
        times.push_back(std::chrono::duration<double, std::micro>(clock::now() - start).count());
    }
    // Without the clock between calls: it would be a part of a call of a microsecond.
    const auto calls = static_cast<long>(times.size());
    const auto again = clock::now();
    for (long i = 0; i < calls; ++i) call();
    const double all = std::chrono::duration<double, std::micro>(clock::now() - again).count();
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
    return {times[times.size() / 2], all / static_cast<double>(calls)};
}

}  // namespace

int main(int count, char** words) try {
    if (count < 8)
        throw std::runtime_error("usage: bench_onednn_perceptron NUMBERS ROWS SECONDS THREADS OUTPUTS WIDTH WIDTH...");
    const memory::dim rows = std::stol(words[2]);
    const double seconds = std::stod(words[3]);
    const int most_threads = std::stoi(words[4]);
    std::vector<memory::dim> widths;
    for (int i = 6; i < count; ++i) widths.push_back(std::stol(words[i]));
    numbers inputs(static_cast<std::size_t>(rows * widths.front()));
    numbers outputs(static_cast<std::size_t>(rows * widths.back()));
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = static_cast<float>(i % 17) * 0.1f;

    int best_threads = most_threads;
    double best = 0;
    for (int threads = most_threads;; threads = 1) {
        omp_set_num_threads(threads);
        perceptron network(words[1], widths, rows);
        const double took = time_of(seconds / 10, [&] { network(inputs.data(), outputs.data()); }).median;
        if (threads == most_threads || took < best) {
            best = took;
            best_threads = threads;
        }
        if (threads == 1) break;
    }
    omp_set_num_threads(best_threads);
    perceptron network(words[1], widths, rows);
    const duration_of_a_call took = time_of(seconds, [&] { network(inputs.data(), outputs.data()); });
    std::ofstream to(words[5], std::ios::binary);
    to.write(reinterpret_cast<const char*>(outputs.data()),
             static_cast<std::streamsize>(outputs.size() * sizeof(float)));
    if (!to.flush()) throw std::runtime_error("the outputs cannot be written");
    const dnnl_version_t& version = *dnnl_version();
    std::printf("{\"onednn\": %.3f, \"mean\": %.3f, \"threads\": %d, \"version\": \"%d.%d.%d\"}\n", took.median,
                took.mean, best_threads, version.major, version.minor, version.patch);
} catch (const std::exception& failure) {
    std::fprintf(stderr, "bench_onednn_perceptron: %s\n", failure.what());
    return 1;
}

// SPDX-License-Identifier: Apache-2.0
// `sluice run` on the CPU compared with a plain loop of the same library's calls: oneDNN inner products, created once,
// over the same batches from the same mapped file, with as many threads as there are cores.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

#include "sluice/io/npy.hpp"
#include "sluice/io/npy_writer.hpp"
#include "sluice/nn/safetensors.hpp"
#include "sluice/nn/to_layers.hpp"
#include "support/result.hpp"
#include "support/timing.hpp"

#if SLUICE_WITH_ONEDNN
#include <omp.h>

#include <oneapi/dnnl/dnnl.hpp>
#include <random>
#include <thread>
#endif

#if DNNL_VERSION_MAJOR == 2  // the version that distributions package
namespace {

using namespace sluice;

// A network with random weights as a safetensors file.
void write_model(const std::filesystem::path& path, const std::vector<std::size_t>& widths) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal(0, 0.05f);
    std::string header = R"({"__metadata__":{"activation":"relu"})";
    std::vector<float> data;
    const auto add = [&](const std::string& name, const std::string& shape, std::size_t size) {
        const std::size_t first = data.size() * sizeof(float);
        for (std::size_t i = 0; i < size; ++i) data.push_back(normal(random));
        header += ",\"" + name + "\":{\"dtype\":\"F32\",\"shape\":" + shape + ",\"data_offsets\":[" +
                  std::to_string(first) + "," + std::to_string(data.size() * sizeof(float)) + "]}";
    };
    for (std::size_t layer = 0; layer + 1 < widths.size(); ++layer) {
        const std::string in = std::to_string(widths[layer]);
        const std::string out = std::to_string(widths[layer + 1]);
        const std::string name = std::to_string(2 * layer);
        add(name + ".weight", "[" + out + "," + in + "]", widths[layer] * widths[layer + 1]);
        add(name + ".bias", "[" + out + "]", widths[layer + 1]);
    }
    header += "}";
    io::atomic_file file(path);
    const std::uint64_t length = header.size();
    file.write_at(0, std::as_bytes(std::span(&length, 1)));
    file.write_at(8, std::as_bytes(std::span(header)));
    file.write_at(8 + length, std::as_bytes(std::span(data)));
    file.commit();
}

void write_input(const std::filesystem::path& path, std::size_t rows, std::size_t width) {
    std::mt19937 random(11);
    std::uniform_real_distribution<float> uniform(0, 1);
    io::npy_writer writer(path, {rows, width});
    std::vector<float> row(width);
    for (std::size_t i = 0; i < rows; ++i) {
        for (float& each : row) each = uniform(random);
        writer.write_rows(i, row);
    }
    writer.commit();
}

// The loop that a user would write without Sluice.
class plain_loop {
public:
    plain_loop(const std::vector<mlp_layer>& layers, std::size_t batch) : batch_(batch) {
        using tag = dnnl::memory::format_tag;
        for (const mlp_layer& layer : layers) {
            const auto matrix = [](std::size_t rows, std::size_t columns, tag order) {
                return dnnl::memory::desc({static_cast<dnnl_dim_t>(rows), static_cast<dnnl_dim_t>(columns)},
                                          dnnl::memory::data_type::f32, order);
            };
            const auto source = matrix(batch, layer.in_features, tag::nc);
            const auto weights = matrix(layer.out_features, layer.in_features, tag::oi);
            const auto out = matrix(batch, layer.out_features, tag::nc);
            const dnnl::memory::desc bias({static_cast<dnnl_dim_t>(layer.out_features)}, dnnl::memory::data_type::f32,
                                          tag::x);
            dnnl::post_ops fused;
            if (layer.after == activation::relu) fused.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
            dnnl::primitive_attr attributes;
            attributes.set_post_ops(fused);
            const dnnl::inner_product_forward::primitive_desc described(
                {dnnl::prop_kind::forward_inference, source, weights, bias, out}, attributes, engine_);
            results_.emplace_back(batch * layer.out_features);
            steps_.push_back(
                {dnnl::inner_product_forward(described),
                 {{DNNL_ARG_SRC, dnnl::memory(source, engine_, nullptr)},
                  {DNNL_ARG_WEIGHTS, dnnl::memory(weights, engine_, const_cast<float*>(layer.weight.data()))},
                  {DNNL_ARG_BIAS, dnnl::memory(bias, engine_, const_cast<float*>(layer.bias.data()))},
                  {DNNL_ARG_DST, dnnl::memory(out, engine_, results_.back().data())}}});
            if (steps_.size() > 1)
                steps_.back().arguments[DNNL_ARG_SRC] = steps_[steps_.size() - 2].arguments[DNNL_ARG_DST];
        }
    }

    void run(const float* rows, std::size_t count, std::size_t width) {
        for (std::size_t first = 0; first + batch_ <= count; first += batch_) {
            steps_[0].arguments[DNNL_ARG_SRC].set_data_handle(const_cast<float*>(rows + first * width));
            for (step& each : steps_) each.product.execute(stream_, each.arguments);
            stream_.wait();
        }
    }

private:
    struct step {
        dnnl::inner_product_forward product;
        std::unordered_map<int, dnnl::memory> arguments;
    };
    const std::size_t batch_;
    dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
    dnnl::stream stream_{engine_};
    std::vector<std::vector<float>> results_;
    std::vector<step> steps_;
};

// Runs `sluice run` as a program and returns the throughput that it reports, in rows per second.
double run_tool(const std::string& tool, const std::filesystem::path& model, const std::filesystem::path& input,
                std::size_t batch) {
    const std::string command = tool + " run --json --device cpu --batch " + std::to_string(batch) + " " +
                                model.string() + " " + input.string();
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> output(popen(command.c_str(), "r"), pclose);
    char line[4096] = {};
    const std::string field = "\"rows_per_second\":";
    if (!output || std::fgets(line, sizeof(line), output.get()) == nullptr)
        throw std::runtime_error("cannot run " + tool);
    const std::string report(line);
    return std::stod(report.substr(report.find(field) + field.size()));
}

void compare(const std::string& tool, const std::vector<std::size_t>& widths, std::size_t batch, std::size_t rows) {
    const auto folder = std::filesystem::temp_directory_path();
    const auto model = folder / "sluice_bench_model.safetensors";
    const auto input = folder / "sluice_bench_input.npy";
    write_model(model, widths);
    write_input(input, rows, widths.front());

    const std::vector<mlp_layer> network = nn::to_layers(nn::load_safetensors(model));
    const io::npy_file array(input);
    double best_ours = 0;
    double best_plain = 0;
    omp_set_num_threads(static_cast<int>(std::thread::hardware_concurrency()));
    plain_loop plain(network, batch);
    plain.run(reinterpret_cast<const float*>(array.view().data().data()), std::min(rows, 4 * batch), widths.front());
    for (int round = 0; round < 9; ++round) {
        const double rows_a_second = run_tool(tool, model, input, batch);
        // As in a program that reads a file once: the file is mapped again, so every page is touched for the first
        // time.
        const io::npy_file fresh(input);
        const auto* const data = reinterpret_cast<const float*>(fresh.view().data().data());
        const auto start = std::chrono::steady_clock::now();
        plain.run(data, rows, widths.front());
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        best_ours = std::max(best_ours, rows_a_second);
        best_plain = std::max(best_plain, static_cast<double>(rows) / seconds);
    }
    std::string layers;
    for (const std::size_t width : widths) layers += (layers.empty() ? "" : "-") + std::to_string(width);
    bench::print({"cpu_run", "{\"network\": \"" + layers + "\", \"batch\": " + std::to_string(batch) + "}", best_ours,
                  "rows/s", best_plain, "CPU, " + std::to_string(std::thread::hardware_concurrency()) + " cores"});
    std::filesystem::remove(model);
    std::filesystem::remove(input);
}

}  // namespace

int main(int argc, char** argv) try {
    if (argc != 2) throw std::runtime_error("usage: bench_cpu_run PATH-OF-SLUICE");
    compare(argv[1], {64, 128, 64, 10}, 1024, 1024 * 2048);
    compare(argv[1], {64, 64, 64, 10}, 1024, 1024 * 2048);
    compare(argv[1], {64, 64, 64, 10}, 64, 64 * 16384);
    compare(argv[1], {64, 64, 64, 10}, 1, 1 << 18);
    compare(argv[1], {784, 512, 512, 10}, 1024, 1024 * 32);
    compare(argv[1], {784, 512, 512, 10}, 64, 64 * 256);
    compare(argv[1], {784, 512, 512, 10}, 1, 1 << 13);
} catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
#else
int main() {
    std::fprintf(stderr, "this benchmark compares with oneDNN 2, which this build does not have\n");
    return 77;
}
#endif

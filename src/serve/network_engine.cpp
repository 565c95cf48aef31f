// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/network_engine.hpp"

#include <malloc.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "nn/prepared_network.hpp"
#include "serve/cuda_memory_opener.hpp"
#include "serve/network_replicas.hpp"
#include "serve/resident_model.hpp"
#include "serve/utf8.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/io/regular_file.hpp"
#include "sluice/io/safetensors.hpp"
#include "sluice/nn/kept_limit.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/nn/onnx.hpp"
#include "sluice/nn/run_limit.hpp"
#include "sluice/nn/safetensors.hpp"
#include "sluice/nn/trees.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/serve/tensor_view.hpp"

namespace sluice::serve {
namespace {

constexpr std::size_t most_kept = 3;  // that are named

// "bf16 (AVX-512-BF16), 5 of 6 products and convolutions; not: conv1: its weights are no constants"
std::string description_of(const nn::rounding_report& its) {
    if (its.precision == nn::precision::f32) return {};
    std::string text = std::string(nn::to_string(its.precision)) + " (" + its.support.how + "), " +
                       std::to_string(its.rounded) + " of " + std::to_string(its.rounded + its.kept.size()) +
                       " products and convolutions";
    for (std::size_t i = 0; i < std::min(its.kept.size(), most_kept); ++i)
        text += (i == 0 ? "; not: " : ", ") + printable(its.kept[i], 100);
    return its.kept.size() > most_kept ? text + ", ..." : text;
}

class network_on_device final : public loaded_model {
public:
    network_on_device(device& on, nn::model from, nn::row_independence rows, nn::precision precision,
                      std::string platform, std::size_t most_bytes, std::size_t kept_bytes)
        : device_(on),
          rows_(std::move(rows)),
          texts_(from.texts),
          platform_(std::move(platform)),
          most_bytes_(most_bytes),
          network_(loaded(on, std::move(from), precision, most_bytes, kept_bytes)) {}

    const std::vector<nn::value_info>& inputs() const noexcept override { return network_.inputs(); }
    const std::vector<nn::value_info>& outputs() const noexcept override { return network_.outputs(); }
    const nn::text_codes& texts() const noexcept override { return texts_; }
    const nn::row_independence& rows() const noexcept override { return rows_; }
    std::string platform() const override { return platform_; }
    std::string device_name() const override { return device_.name(); }
    std::string how() const override { return description_of(network_.rounding()); }
    bool is_lost() const noexcept override { return device_.is_poisoned(); }
    // It is compiled for each shape. On a CPU that takes less than the rows that would be added.
    bool prefers_few_sizes() const noexcept override { return device_.kind() == device_kind::cuda; }

    // On a GPU the next run of a shape would take as long as the first one: algorithms are tried, graphs are made.
    void give_back_memory() const noexcept override {
        if (device_.shares_host_memory()) network_.inside().forget_calls();
    }

    std::vector<nn::any_tensor> run(std::vector<nn::any_tensor> inputs) const override {
        std::vector<nn::input_view> views;
        views.reserve(inputs.size());
        for (const nn::any_tensor& each : inputs) views.emplace_back(each);
        const nn::run_limit limit(most_bytes_);
        return network_(views);  // on a CPU: on this thread
    }

private:
    static nn::network loaded(device& on, nn::model from, nn::precision precision, std::size_t most_bytes,
                              std::size_t kept_bytes) {
        const nn::run_limit limit(most_bytes);
        const nn::kept_limit kept(kept_bytes);
        single_stream stream(on);
        return sync(nn::make_network(std::move(from), {.precision = precision}), stream);
    }

    device& device_;  // it lives at least as long as the network on it
    nn::row_independence rows_;
    nn::text_codes texts_;
    std::string platform_;
    std::size_t most_bytes_;  // of a run
    nn::network network_;
};

// What was freed stays in the heap of the process, up to its peak.
void give_back_heap() noexcept {
#ifdef __GLIBC__
    ::malloc_trim(0);
#endif
}

bool is_safetensors(const std::filesystem::path& file) { return file.extension() == ".safetensors"; }
bool is_of_trees(const std::filesystem::path& file) {
    return !is_safetensors(file) && file.extension() != ".onnx" && nn::is_tree_file(file);
}

const char* platform_of(const std::filesystem::path& file) {
    if (is_safetensors(file)) return "sluice_safetensors";
    return is_of_trees(file) ? "sluice_trees" : "sluice_onnx";
}

void require_no_activations(const model_version& which, const model_config& how) {
    if (!how.hidden_activation && !how.output_activation) return;
    throw error(errc::invalid_argument, "model '" + which.name +
                                            "': an ONNX file has its activations as nodes: leave out activation and "
                                            "output_activation");
}

// More dimensions than requests and answers may have would never be served.
void require_few_dimensions(const std::vector<nn::value_info>& all, const std::string& kind) {
    for (const nn::value_info& each : all) {
        if (each.shape && each.shape->size() > tensor_shape::most_dimensions)
            throw error(errc::unsupported, kind + " " + in_quotes(each.name) + " has more than " +
                                               std::to_string(tensor_shape::most_dimensions) + " dimensions");
    }
}

// Answers could not name them otherwise, and requests not at all.
void require_utf8_names(const std::vector<nn::value_info>& all, const std::string& kind) {
    for (const nn::value_info& each : all) {
        if (!is_utf8(each.name))
            throw error(errc::unsupported, "the name of " + kind + " " + in_quotes(each.name) + " is not UTF-8");
    }
}

// Answers in JSON could not hold others.
void require_utf8_texts(const nn::model& from) {
    if (std::ranges::none_of(from.body.outputs, &nn::value_info::is_text)) return;
    for (const std::string& each : from.texts)
        if (!is_utf8(each)) throw error(errc::unsupported, "the text " + in_quotes(each) + " is not UTF-8");
}

nn::model read_model(const model_version& which, const model_config& how, nn::data_links links) {
    // Not mapped: a file that becomes shorter meanwhile must not end the server.
    const std::vector<std::byte> bytes = io::regular_file(which.file).read_all();
    if (is_safetensors(which.file)) {
        return nn::load_safetensors(io::safetensors_view(bytes, which.file),
                                    {.hidden = how.hidden_activation, .output = how.output_activation});
    }
    require_no_activations(which, how);
    nn::model from =
        is_of_trees(which.file) ? nn::read_trees(bytes, which.file) : nn::read_onnx(bytes, which.file, {}, links);
    require_few_dimensions(from.body.inputs, "input");
    require_few_dimensions(from.body.outputs, "output");
    require_utf8_names(from.body.inputs, "input");
    require_utf8_names(from.body.outputs, "output");
    require_utf8_texts(from);
    return from;
}

}  // namespace

network_engine::network_engine(const network_engine_options& options)
    : machine_(options.machine),
      device_(machine_.find(options.device).name()),
      most_run_bytes_(options.most_run_bytes),
      kept_bytes_(options.kept_bytes),
      links_(options.links) {}

std::vector<device*> network_engine::devices_of(const model_config& how) const {
    std::vector<device*> all;
    all.reserve(std::max<std::size_t>(how.devices.size(), 1));
    for (const std::string& each : how.devices) all.push_back(&machine_.find(each));
    if (all.empty()) all.push_back(&machine_.find(how.device.empty() ? device_ : how.device));
    for (auto each = all.begin(); each != all.end(); ++each) {
        if (std::find(all.begin(), each, *each) != each)
            throw error(errc::invalid_argument, "the configuration names the device " + (*each)->name() + " twice");
    }
    return all;
}

std::shared_ptr<const loaded_model> network_engine::load(const model_version& which, const model_config& how) {
    const std::vector<device*> devices = devices_of(how);
    const nn::model from = read_model(which, how, links_);
    const nn::row_independence rows = nn::find_row_independence(from);
    const std::string platform = platform_of(which.file);
    std::vector<std::shared_ptr<const loaded_model>> made;
    for (device* const on : devices) {
        made.push_back(std::make_shared<network_on_device>(*on, from, rows, how.precision, platform, most_run_bytes_,
                                                           how.kept_bytes.value_or(kept_bytes_)));
        if (!how.resident) continue;
        made.back() = make_resident(made.back(), *on, from, how.precision, {.lanes = how.instances});
    }
    if (made.size() == 1) return made.front();
    return std::make_shared<network_replicas>(std::move(made));
}

void network_engine::give_back_memory() {
    for (device* const each : machine_.devices()) each->trim();
    give_back_heap();
}

void network_engine::look_at_devices() {
    for (device* const each : machine_.devices()) {
        if (each->kind() == device_kind::cpu || each->is_poisoned()) continue;
        try {
            static_cast<void>(each->memory());
        } catch (const device_error&) {  // NOLINT(bugprone-empty-catch): where it has failed, the device knows it now
        }
    }
}

std::shared_ptr<const gpu_memory_opener> network_engine::gpu_memory() {
    return std::make_shared<cuda_memory_opener>(machine_);
}

}  // namespace sluice::serve

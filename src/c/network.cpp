// SPDX-License-Identifier: Apache-2.0
#include "sluice/nn/network.hpp"

#include <cstddef>
#include <filesystem>
#include <span>

#include "c/handles.hpp"
#include "c/load_model.hpp"
#include "c/options.hpp"
#include "c/types.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/nn/onnx.hpp"
#include "sluice/nn/safetensors.hpp"
#include "sluice/nn/trees.hpp"
#include "sluice/runtime/sync.hpp"

using namespace sluice;
using namespace sluice::c;

namespace sluice::c {
namespace {

constexpr std::size_t usual_streams = 4;
constexpr std::size_t most_streams = 1024;
// Of a file in memory. A larger size is a mistake of the caller, so that nothing of the file may be read.
constexpr std::size_t most_file_bytes = 0x7fff'ffff;
// Of the options in version 1.0.
constexpr std::size_t first_options_size = offsetof(sluice_network_options, precision);

// Of infos before version 1.4.
constexpr std::size_t first_value_info_size = offsetof(sluice_value_info, is_text);

std::vector<described_value> described(const std::vector<nn::value_info>& values) {
    std::vector<described_value> made;
    made.reserve(values.size());  // the infos point into it
    for (const nn::value_info& each : values) {
        described_value& one = made.emplace_back(described_value{&each, {}, {}});
        if (each.shape) {
            for (const nn::dimension& length : *each.shape) {
                one.dimensions.push_back({length.length ? static_cast<std::int64_t>(*length.length) : SLUICE_ANY_LENGTH,
                                          length.name.c_str()});
            }
        }
        one.info = {sizeof(sluice_value_info),
                    each.name.c_str(),
                    one.dimensions.empty() ? nullptr : one.dimensions.data(),
                    each.shape ? each.shape->size() : SLUICE_ANY_RANK,
                    type_from(each.type),
                    0,
                    each.is_text ? 1 : 0};
    }
    return made;
}

std::optional<activation> activation_named(const char* name, std::string_view which, std::string_view function) {
    if (name == nullptr) return {};
    const std::optional<activation> found = activation_from_string(name);
    if (found) return found;
    refuse(function, std::string(which) + " is " + in_quotes(name) + "; possible are " + nn::accepted_activations());
}

nn::precision precision_named(const char* name, std::string_view function) {
    if (name == nullptr) return nn::precision::f32;
    const std::optional<nn::precision> found = nn::precision_from_string(name);
    if (found) return *found;
    refuse(function, "precision is " + in_quotes(name) + "; possible are f32, bf16, f16 and int8");
}

// What reads the file. Throws for options that do not fit it.
std::function<nn::model()> reader_of(const std::filesystem::path& path, const sluice_network_options& options,
                                     std::string_view function) {
    const bool is_perceptron = path.extension() == ".safetensors";
    if (!is_perceptron && (options.hidden_activation != nullptr || options.output_activation != nullptr))
        refuse(function,
               "the options name an activation, and only files *.safetensors need that: " + in_quotes(path.string()));
    if (!is_perceptron && path.extension() != ".onnx" && nn::is_tree_file(path))
        return [path] { return nn::load_trees(path); };
    if (!is_perceptron) return [path] { return nn::load_onnx(path); };
    const nn::safetensors_options with{
        .hidden = activation_named(options.hidden_activation, "hidden_activation", function),
        .output = activation_named(options.output_activation, "output_activation", function)};
    return [path, with] { return nn::load_safetensors(path, with); };
}

// `read` gives the model.
sluice_network* load(const sluice_runtime& runtime, const sluice_network_options& options, std::string_view function,
                     std::function<nn::model()> read) {
    if (options.streams > most_streams) {
        refuse(function, "the options ask for " + std::to_string(options.streams) + " streams; at most " +
                             std::to_string(most_streams) + " are possible");
    }
    const nn::precision precision = precision_named(options.precision, function);
    device& on = runtime.machine->find(options.device != nullptr ? options.device : "auto");
    return new sluice_network{
        .held = std::make_shared<const loaded_network>(
            runtime, on, options.streams != 0 ? options.streams : usual_streams, std::move(read), precision)};
}

// Of inputs or of outputs.
void describe(const std::vector<described_value>& all, std::size_t index, sluice_value_info* info,
              std::string_view what, std::string_view function) {
    require(info, function, "info");
    if (index >= all.size()) {
        refuse(function, "there is no " + std::string(what) + " " + std::to_string(index) + "; there are " +
                             std::to_string(all.size()));
    }
    write_info(*info, all[index].info, first_value_info_size, function);
}

std::size_t find(const std::vector<described_value>& all, const char* name, std::string_view what,
                 std::string_view function) {
    const std::string_view wanted = &require(name, function, "name");
    std::string known;
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (all[i].from->name == wanted) return i;
        known += (known.empty() ? "" : ", ") + in_quotes(all[i].from->name);
    }
    refuse(function, "there is no " + std::string(what) + " " + in_quotes(wanted) + "; there are " + known);
}

}  // namespace

sluice_network_options read_network_options(const sluice_network_options* options, std::string_view function) {
    const auto given = read_options(options, first_options_size, function);
    if (given.hidden_activation != nullptr || given.output_activation != nullptr)
        refuse(function,
               "the options name an activation, which ONNX and builders have as nodes: only *.safetensors need it");
    return given;
}

sluice_network* load_model(const sluice_runtime& runtime, const sluice_network_options& options,
                           std::string_view function, nn::model made) {
    return load(runtime, options, function, [made = std::move(made)] { return made; });  // copies share the constants
}

loaded_network::loaded_network(const sluice_runtime& of, device& at, std::size_t streams,
                               std::function<nn::model()> read, nn::precision rounded_to)
    : machine(of.machine),
      on(at),
      pool(at, streams),
      network(sync(nn::make_network(read(), {.precision = rounded_to}), pool)),
      texts(network.texts()),
      inputs(described(network.inputs())),
      outputs(described(network.outputs())),
      machine_options(of.options),
      read_again(std::move(read)),
      precision(rounded_to) {
    if (on.kind() == device_kind::cuda) {
        of_device_inputs.emplace(on);
        of_lent.emplace(on);
    }
    for (const std::string& each : network.rounding().kept) kept.push_back(each.c_str());
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i].info.needs_host = network.is_host_input(i) ? 1 : 0;
}

}  // namespace sluice::c

sluice_status sluice_network_load(sluice_runtime* runtime, const char* path, const sluice_network_options* options,
                                  sluice_network** network) {
    return guarded([&] {
        const std::string_view here = "sluice_network_load";
        const sluice_runtime& machine = require(runtime, here, "runtime");
        const std::filesystem::path file = &require(path, here, "path");
        require(network, here, "network");
        const auto given = read_options(options, first_options_size, here);
        *network = load(machine, given, here, reader_of(file, given, here));
    });
}

sluice_status sluice_network_load_memory(sluice_runtime* runtime, const void* file, size_t bytes, const char* name,
                                         const sluice_network_options* options, sluice_network** network) {
    return guarded([&] {
        const std::string_view here = "sluice_network_load_memory";
        const sluice_runtime& machine = require(runtime, here, "runtime");
        if (file == nullptr) refuse(here, "file is null");
        require(network, here, "network");
        const auto given = read_network_options(options, here);
        const char* const called = name != nullptr ? name : "network";
        if (bytes > most_file_bytes)
            throw file_error(called, file_error::no_offset, {}, "is larger than 2 GiB, which no file of a network is");
        const std::span what(static_cast<const std::byte*>(file), bytes);
        *network = load_model(machine, given, here,
                              nn::is_tree_file(what) ? nn::read_trees(what, called) : nn::read_onnx(what, called));
    });
}

void sluice_network_destroy(sluice_network* network) { destroy_if_here(network); }

sluice_status sluice_network_input_count(const sluice_network* network, size_t* count) {
    return guarded([&] {
        const std::string_view here = "sluice_network_input_count";
        const std::size_t all = require(network, here, "network").held->inputs.size();
        require(count, here, "count") = all;
    });
}

sluice_status sluice_network_output_count(const sluice_network* network, size_t* count) {
    return guarded([&] {
        const std::string_view here = "sluice_network_output_count";
        const std::size_t all = require(network, here, "network").held->outputs.size();
        require(count, here, "count") = all;
    });
}

sluice_status sluice_network_input(const sluice_network* network, size_t index, sluice_value_info* info) {
    return guarded([&] {
        const std::string_view here = "sluice_network_input";
        describe(require(network, here, "network").held->inputs, index, info, "input", here);
    });
}

sluice_status sluice_network_output(const sluice_network* network, size_t index, sluice_value_info* info) {
    return guarded([&] {
        const std::string_view here = "sluice_network_output";
        describe(require(network, here, "network").held->outputs, index, info, "output", here);
    });
}

sluice_status sluice_network_find_input(const sluice_network* network, const char* name, size_t* index) {
    return guarded([&] {
        const std::string_view here = "sluice_network_find_input";
        const std::size_t found = find(require(network, here, "network").held->inputs, name, "input", here);
        require(index, here, "index") = found;
    });
}

sluice_status sluice_network_find_output(const sluice_network* network, const char* name, size_t* index) {
    return guarded([&] {
        const std::string_view here = "sluice_network_find_output";
        const std::size_t found = find(require(network, here, "network").held->outputs, name, "output", here);
        require(index, here, "index") = found;
    });
}

sluice_status sluice_network_text_code(const sluice_network* network, const char* text, size_t length, int64_t* code) {
    return guarded([&] {
        const std::string_view here = "sluice_network_text_code";
        const nn::text_codes& known = require(network, here, "network").held->texts;
        const char* const from = &require(text, here, "text");
        require(code, here, "code") = known.code_of({from, length});
    });
}

sluice_status sluice_network_text(const sluice_network* network, int64_t code, const char** text, size_t* length) {
    return guarded([&] {
        const std::string_view here = "sluice_network_text";
        const std::string_view found = require(network, here, "network").held->texts.text_of(code);
        require(text, here, "text");
        require(length, here, "length") = found.size();
        *text = found.data();
    });
}

sluice_status sluice_network_device(const sluice_network* network, const char** name) {
    return guarded([&] {
        const std::string_view here = "sluice_network_device";
        const loaded_network& of = *require(network, here, "network").held;
        require(name, here, "name") = of.on.name().c_str();
    });
}

sluice_status sluice_network_rounding(const sluice_network* network, sluice_rounding_info* info) {
    return guarded([&] {
        const std::string_view here = "sluice_network_rounding";
        const loaded_network& of = *require(network, here, "network").held;
        require(info, here, "info");
        const nn::rounding_report& its = of.network.rounding();
        const sluice_rounding_info filled{
            sizeof(sluice_rounding_info),
            nn::to_string(its.precision).data(),  // NOLINT(bugprone-suspicious-stringview-data-usage): a literal
            its.rounded,
            its.quantized,
            of.kept.empty() ? nullptr : of.kept.data(),
            of.kept.size(),
            its.support.how.c_str(),
            its.support.is_native ? 1 : 0};
        write_info(*info, filled, sizeof(sluice_rounding_info), here);
    });
}

sluice_status sluice_network_cuda_stream(const sluice_network* network, void** stream) {
    return guarded([&] {
        const std::string_view here = "sluice_network_cuda_stream";
        const loaded_network& of = *require(network, here, "network").held;
        require(stream, here, "stream");
        if (!of.of_device_inputs)
            refuse(here, "the network is on " + of.on.name() + ", which has no CUDA streams", errc::unsupported);
        *stream = of.of_device_inputs->next().native().handle;
    });
}

// SPDX-License-Identifier: Apache-2.0
// protobuf reads the text, with the fields of inference.proto: those that a configuration may have here.
#include "serve/config_pbtxt.hpp"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include <inference.pb.h>
#include "serve/config_text.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/serve/tensor_view.hpp"

namespace sluice::serve {
namespace {

using json = nlohmann::json;

std::string listed(const std::vector<std::string>& words) {
    std::string all;
    for (const std::string& each : words) all += (all.empty() ? "" : ", ") + each;
    return all;
}

// The fields of the message that protobuf names: 'Message type "inference.ModelConfig" has no field named "x".'
std::string fields_named_in(const std::string& message) {
    const std::size_t begin = message.find("inference."), end = message.find('"', begin);
    if (begin == std::string::npos || end == std::string::npos) return {};
    const auto* const type =
        google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(message.substr(begin, end - begin));
    if (type == nullptr) return {};
    std::vector<std::string> names;
    names.reserve(static_cast<std::size_t>(type->field_count()));
    for (int i = 0; i < type->field_count(); ++i) names.emplace_back(type->field(i)->name());
    return listed(names);
}

// The reader of keys distinguishes integers of at least 0 from others.
json number_of(std::int64_t value) { return value < 0 ? json(value) : json(static_cast<std::uint64_t>(value)); }

// Keeps the first error.
class first_error final : public google::protobuf::io::ErrorCollector {
public:
    void AddError(int line, google::protobuf::io::ColumnNumber, const std::string& message) override {
        if (!text_.empty()) return;
        text_ = "line " + std::to_string(line + 1) + ": " + printable(message, 300);
        if (message.find("has no field named") != std::string::npos)
            text_ += " It would mean nothing here; accepted are " + fields_named_in(message);
    }
    const std::string& text() const noexcept { return text_; }

private:
    std::string text_;
};

class pbtxt_reader {
public:
    pbtxt_reader(const std::filesystem::path& file, const inference::ModelConfig& from) : file_(file), from_(from) {}

    pbtxt_config read() {
        require_kind();
        made_.name = from_.name();
        made_.model_file = from_.default_model_filename();
        if (!made_.model_file.empty()) require_file_name();
        read_batches();
        read_versions();
        read_instances();
        made_.inputs = tensors_of("input", from_.input());
        made_.outputs = tensors_of("output", from_.output());
        if (from_.model_transaction_policy().decoupled())
            refuse("model_transaction_policy", "a request has one answer here: accepted is decoupled: false");
        return std::move(made_);
    }

private:
    [[noreturn]] void refuse(const std::string& field, const std::string& why) const {
        throw file_error(file_, file_error::no_offset, in_quotes(field), why);
    }

    void require_one_of(const std::string& field, const std::string& value,
                        const std::vector<std::string>& accepted) const {
        if (!value.empty() && std::ranges::find(accepted, value) == accepted.end())
            refuse(field, in_quotes(value) + " does not run here; accepted are " + listed(accepted));
    }

    void require_kind() const {
        require_one_of("platform", from_.platform(),
                       {"onnxruntime_onnx", "sluice_onnx", "sluice_safetensors", "sluice_trees"});
        require_one_of("backend", from_.backend(), {"onnxruntime", "sluice"});
    }

    void require_file_name() const {
        const std::filesystem::path name(made_.model_file);
        const std::vector<std::string> accepted{".onnx", ".safetensors", ".txt", ".json", ".ubj"};
        if (name != name.filename() || std::ranges::find(accepted, name.extension().string()) == accepted.end())
            refuse("default_model_filename",
                   "accepted is the name of a file in the folder of the version, with the ending .onnx or "
                   ".safetensors, or .txt, .json, .ubj for trees");
    }

    // Triton joins requests where there is dynamic_batching, and a first dimension that is not listed.
    void read_batches() {
        const std::int32_t most = from_.max_batch_size();
        if (most < 0) refuse("max_batch_size", "accepted is an integer from 0");
        made_.inputs.has_rows = made_.outputs.has_rows = most > 0;
        if (!from_.has_dynamic_batching()) {
            made_.keys["max_batch"] = number_of(1);
            return;
        }
        if (most == 0)
            refuse("dynamic_batching", "max_batch_size is 0, so requests are never joined: leave one of the two out");
        made_.keys["max_batch"] = number_of(most);
        const inference::ModelDynamicBatching& its = from_.dynamic_batching();
        if (its.preferred_batch_size_size() != 0) {
            json& sizes = made_.keys["preferred_batch_size"] = json::array();
            for (const std::int32_t each : its.preferred_batch_size()) sizes.push_back(number_of(each));
        }
        made_.keys["max_delay_us"] = its.max_queue_delay_microseconds();
        if (its.priority_levels() != 0) made_.keys["priority_levels"] = its.priority_levels();
        if (its.default_priority_level() != 0) made_.keys["default_priority"] = its.default_priority_level();
        made_.keys["default_queue_policy"] = policy_of(its.default_queue_policy());
        for (const auto& [priority, policy] : its.priority_queue_policy())
            made_.keys["priority_queue_policy"][std::to_string(priority)] = policy_of(policy);
    }

    static json policy_of(const inference::ModelQueuePolicy& from) {
        return {{"timeout_action", from.timeout_action() == inference::ModelQueuePolicy::DELAY ? "delay" : "reject"},
                {"timeout_us", from.default_timeout_microseconds()},
                {"allow_timeout_override", from.allow_timeout_override()},
                {"queue", from.max_queue_size()}};
    }

    void read_versions() {
        const inference::ModelVersionPolicy& its = from_.version_policy();
        if (its.has_all()) made_.keys["versions"] = "all";
        if (its.has_latest() && its.latest().num_versions() > 1)
            refuse("version_policy", "accepted are latest: { num_versions: 1 }, all and specific");
        if (!its.has_specific()) return;
        json& versions = made_.keys["versions"] = json::array();
        for (const std::int64_t each : its.specific().versions()) versions.push_back(number_of(each));
    }

    // `count` is of each GPU.
    void read_instances() {
        if (from_.instance_group_size() > 1) refuse("instance_group", "accepted is one group");
        if (from_.instance_group_size() == 0) return;
        const inference::ModelInstanceGroup& its = from_.instance_group(0);
        using kind = inference::ModelInstanceGroup;
        if (its.kind() == kind::KIND_MODEL) refuse("instance_group", "accepted are KIND_AUTO, KIND_CPU and KIND_GPU");
        if (its.gpus_size() != 0 && its.kind() == kind::KIND_CPU) refuse("instance_group", "KIND_CPU has no gpus");
        if (its.count() < 0) refuse("instance_group", "count is accepted from 1");
        made_.keys["instances"] =
            number_of(std::int64_t{std::max(its.count(), 1)} * std::int64_t{std::max(its.gpus_size(), 1)});
        if (its.kind() == kind::KIND_CPU) made_.keys["device"] = "cpu";
        if (its.gpus_size() == 0 && its.kind() == kind::KIND_GPU) made_.keys["device"] = "cuda";
        for (const std::int32_t each : its.gpus()) made_.keys["devices"].push_back("cuda:" + std::to_string(each));
    }

    template <typename Tensors>
    configured_tensors tensors_of(const std::string& field, const Tensors& from) const {
        configured_tensors made{.all = {}, .has_rows = from_.max_batch_size() > 0};
        for (const auto& each : from) {
            const std::string type = inference::DataType_Name(each.data_type());  // "TYPE_FP32"
            const bool is_text = type == "TYPE_STRING";
            const auto its = is_text
                                 ? std::optional(io::dtype::i64)
                                 : dtype_of_datatype(std::string_view(type).substr(std::string_view("TYPE_").size()));
            if (!its) {
                refuse(field, in_quotes(each.name()) + " has the data_type " + type +
                                  "; accepted are TYPE_ and one of STRING, " + known_datatypes());
            }
            if (std::ranges::any_of(each.dims(), [](std::int64_t length) { return length < -1 || length == 0; }))
                refuse(field, in_quotes(each.name()) + ": dims are lengths, or -1 for any length");
            made.all.push_back({each.name(), *its, {each.dims().begin(), each.dims().end()}, is_text});
        }
        return made;
    }

    const std::filesystem::path& file_;
    const inference::ModelConfig& from_;
    pbtxt_config made_{.keys = json::object(), .name = {}, .model_file = {}, .inputs = {}, .outputs = {}};
};

}  // namespace

pbtxt_config parse_config_pbtxt(const std::string& text, const std::filesystem::path& file) {
    google::protobuf::TextFormat::Parser parser;
    first_error failure;
    parser.RecordErrorsTo(&failure);
    parser.SetRecursionLimit(static_cast<int>(deepest_config));
    inference::ModelConfig parsed;
    if (!parser.ParseFromString(text, &parsed)) {
        throw file_error(file, file_error::no_offset, "",
                         "this is no configuration of a model in protobuf's text format: " + failure.text());
    }
    return pbtxt_reader(file, parsed).read();
}

}  // namespace sluice::serve

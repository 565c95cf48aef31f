// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/model_config.hpp"

#include <cstdint>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "sluice/base/file_error.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::serve {
namespace {

using json = nlohmann::json;

constexpr std::size_t longest_file = 1 << 20;
constexpr std::size_t deepest = 8;
constexpr std::size_t an_hour_us = 3'600'000'000;

class config_reader {
public:
    config_reader(const std::filesystem::path& file, model_config& to) : file_(file), to_(to) {}

    void read(const std::string& text) {
        const json all = parsed(text);
        if (!all.is_object()) refuse("", "a configuration is a JSON object");
        for (const auto& [key, value] : all.items()) {
            const auto found = keys_.find(key);
            if (found == keys_.end()) refuse(key, "this key is unknown; the keys are " + known());
            found->second(key, value);
        }
    }

private:
    using reader = std::function<void(const std::string&, const json&)>;

    [[noreturn]] void refuse(const std::string& key, const std::string& why) const {
        throw file_error(file_, file_error::no_offset, key.empty() ? key : in_quotes(key), why);
    }

    std::string known() const {
        std::string all;
        for (const auto& [key, read] : keys_) all += (all.empty() ? "" : ", ") + key;
        return all;
    }

    // Keys that are there twice are refused: which one holds would be a guess.
    json parsed(const std::string& text) const {
        std::set<std::string> seen;
        std::string twice;
        const auto watch = [&](int depth, json::parse_event_t event, json& value) {
            if (static_cast<std::size_t>(depth) > deepest) refuse("", "the objects are too deep");
            if (depth == 1 && event == json::parse_event_t::key && !seen.insert(value.get<std::string>()).second)
                twice = value.get<std::string>();
            return true;
        };
        try {
            json all = json::parse(text, watch);
            if (!twice.empty()) refuse(twice, "this key is there twice");
            return all;
        } catch (const json::exception& failure) {
            refuse("", "this is no JSON: " + printable(failure.what(), 200));
        }
    }

    std::size_t number(const std::string& key, const json& value, std::size_t least, std::size_t most) const {
        if (value.is_number_unsigned() && value.get<std::uint64_t>() >= least && value.get<std::uint64_t>() <= most)
            return value.get<std::size_t>();
        refuse(key, "accepted is an integer from " + std::to_string(least) + " to " + std::to_string(most));
    }

    void read_versions(const std::string& key, const json& value) {
        const std::string accepted = R"(accepted are "latest", "all" and a list of versions such as [1, 3])";
        if (value == "latest") return;
        if (value == "all") {
            to_.all_versions = true;
            return;
        }
        if (!value.is_array() || value.empty()) refuse(key, accepted);
        to_.versions.emplace();
        for (const json& each : value) to_.versions->push_back(number(key, each, 1, std::numeric_limits<int>::max()));
    }

    activation read_activation(const std::string& key, const json& value) const {
        const auto named = value.is_string() ? activation_from_string(value.get<std::string>()) : std::nullopt;
        if (!named) refuse(key, "accepted are none, relu, gelu, sigmoid, tanh and softmax");
        return *named;
    }

    reader count(std::size_t model_config::* member, std::size_t least, std::size_t most) {
        return [=, this](const std::string& key, const json& value) { to_.*member = number(key, value, least, most); };
    }

    const std::filesystem::path& file_;
    model_config& to_;
    const std::map<std::string, reader, std::less<>> keys_{
        {"max_batch", [this](const std::string& key, const json& v) { to_.max_batch = number(key, v, 1, 65536); }},
        {"max_delay_us", count(&model_config::max_delay_us, 0, 10'000'000)},
        {"queue", count(&model_config::queue, 1, 1'000'000)},
        {"instances", count(&model_config::instances, 1, 256)},
        {"caller_thread_us", count(&model_config::caller_thread_us, 0, 1'000'000)},
        {"timeout_us", count(&model_config::timeout_us, 0, an_hour_us)},
        {"versions", [this](const std::string& key, const json& v) { read_versions(key, v); }},
        {"device",
         [this](const std::string& key, const json& v) {
             if (!v.is_string()) refuse(key, "accepted is the name of a device, such as \"cpu:0\"");
             to_.device = v.get<std::string>();
         }},
        {"activation",
         [this](const std::string& key, const json& v) { to_.hidden_activation = read_activation(key, v); }},
        {"output_activation",
         [this](const std::string& key, const json& v) { to_.output_activation = read_activation(key, v); }},
    };
};

}  // namespace

model_config parse_model_config(const std::string& text, const std::filesystem::path& file) {
    model_config config;
    config_reader(file, config).read(text);
    return config;
}

model_config read_model_config(const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    if (!in) throw file_error(file, file_error::no_offset, "", "the file cannot be read", errc::io_failed);
    std::string text(longest_file + 1, '\0');
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(in.gcount()));
    if (in.bad()) throw file_error(file, file_error::no_offset, "", "the file cannot be read", errc::io_failed);
    if (text.size() > longest_file) throw file_error(file, file_error::no_offset, "", "the file is longer than 1 MiB");
    return parse_model_config(text, file);
}

}  // namespace sluice::serve

// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/model_config.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "serve/config_pbtxt.hpp"
#include "serve/config_text.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/io/regular_file.hpp"

namespace sluice::serve {
namespace {

using json = nlohmann::json;

constexpr std::size_t longest_file = 1 << 20;
constexpr std::size_t an_hour_us = 3'600'000'000;
constexpr std::size_t most_rows = 65536;
constexpr std::size_t most_waiting = 1'000'000;
constexpr std::size_t most_share = 1'000'000;

// The path of a key in messages: "default_queue_policy.queue".
std::string within(const std::string& object, const std::string& key) {
    return object.empty() ? key : object + "." + key;
}

class config_reader {
public:
    config_reader(const std::filesystem::path& file, model_config& to) : file_(file), to_(to) {}

    void read(const json& all) {
        if (!all.is_object()) refuse("", "a configuration is an object");
        read_object("", all, keys_);
        require_priorities(all.contains("default_priority"));
        if (all.contains("device") && all.contains("devices"))
            refuse("devices", "'device' is there too: use one of the two");
        require_preferred();
        require_shares();
    }

private:
    using reader = std::function<void(const std::string&, const json&)>;
    using readers = std::map<std::string, reader, std::less<>>;

    [[noreturn]] void refuse(const std::string& key, const std::string& why) const {
        throw file_error(file_, file_error::no_offset, key.empty() ? key : in_quotes(key), why);
    }

    static std::string known(const readers& keys) {
        std::string all;
        for (const auto& [key, read] : keys) all += (all.empty() ? "" : ", ") + key;
        return all;
    }

    void read_object(const std::string& where, const json& from, const readers& keys) const {
        for (const auto& [key, value] : from.items()) {
            const auto found = keys.find(key);
            if (found == keys.end()) refuse(within(where, key), "this key is unknown; the keys are " + known(keys));
            found->second(within(where, key), value);
        }
    }

    std::size_t number(const std::string& key, const json& value, std::size_t least, std::size_t most) const {
        if (value.is_number_unsigned() && value.get<std::uint64_t>() >= least && value.get<std::uint64_t>() <= most)
            return value.get<std::size_t>();
        refuse(key, "accepted is an integer from " + std::to_string(least) + " to " + std::to_string(most));
    }

    std::vector<std::size_t> numbers(const std::string& key, const json& value, std::size_t most,
                                     const std::string& accepted) const {
        if (!value.is_array() || value.empty()) refuse(key, accepted);
        std::vector<std::size_t> all;
        for (const json& each : value) all.push_back(number(key, each, 1, most));
        return all;
    }

    void read_versions(const std::string& key, const json& value) {
        says_latest_ = value == "latest";
        if (says_latest_) return;
        if (value == "all") {
            to_.all_versions = true;
            return;
        }
        to_.versions = numbers(key, value, std::numeric_limits<int>::max(),
                               R"(accepted are "latest", "all" and a list of versions such as [1, 3])");
    }

    void read_shares(const std::string& where, const json& value) {
        if (!value.is_object() || value.empty())
            refuse(where, R"(accepted is an object with numbers by versions, such as {"1": 90, "2": 10})");
        for (const auto& [key, share] : value.items()) {
            std::size_t version = 0;
            const auto [end, failure] = std::from_chars(key.data(), key.data() + key.size(), version);
            const bool is_version = failure == std::errc() && end == key.data() + key.size() && version > 0 &&
                                    version <= std::numeric_limits<int>::max() && key.front() != '0';
            if (!is_version) refuse(within(where, key), "a key here is a version, such as \"1\"");
            to_.shares.emplace(version, number(within(where, key), share, 1, most_share));
        }
    }

    // A version that has a share is served.
    void require_shares() {
        if (to_.shares.empty() || to_.all_versions) return;
        if (says_latest_) refuse("versions", "'shares' names the versions: leave out \"latest\"");
        if (!to_.versions) {
            to_.versions.emplace();
            for (const auto& [version, share] : to_.shares) to_.versions->push_back(version);
        }
        for (const auto& [version, share] : to_.shares)
            if (std::ranges::find(*to_.versions, version) == to_.versions->end())
                refuse(within("shares", std::to_string(version)), "'versions' does not have this version");
    }

    void read_devices(const std::string& key, const json& value) {
        const auto is_name = [](const json& each) { return each.is_string() && !each.get<std::string>().empty(); };
        if (!value.is_array() || value.empty() || !std::ranges::all_of(value, is_name))
            refuse(key, R"(accepted is a list of devices such as ["cuda:0", "cuda:1"])");
        to_.devices = value.get<std::vector<std::string>>();
        for (auto each = to_.devices.begin(); each != to_.devices.end(); ++each)
            if (std::find(to_.devices.begin(), each, *each) != each) refuse(key, in_quotes(*each) + " is there twice");
    }

    void read_preferred(const std::string& key, const json& value) {
        auto& rows = to_.preferred_batch_size;
        rows = numbers(key, value, most_rows, "accepted is a list of numbers of rows such as [4, 8]");
        std::ranges::sort(rows);
        if (std::ranges::adjacent_find(rows) != rows.end()) refuse(key, "a number is there twice");
    }

    void read_state(const std::string& where, const json& value) {
        if (!value.is_object())
            refuse(where, R"(accepted is an object with the next inputs by the outputs, such as {"hn": "h0"})");
        for (const auto& [output, input] : value.items()) {
            if (!input.is_string()) refuse(within(where, output), "accepted is the name of an input");
            to_.state[output] = input.get<std::string>();
        }
    }

    void read_state_shapes(const std::string& where, const json& value) {
        if (!value.is_object())
            refuse(where, R"(accepted is an object with shapes by the inputs, such as {"past": [1, 4, 0, 16]})");
        for (const auto& [input, shape] : value.items()) {
            if (!shape.is_array()) refuse(within(where, input), "accepted is a list of lengths");
            std::vector<std::size_t>& lengths = to_.state_shapes[input];
            for (const json& each : shape)
                lengths.push_back(number(within(where, input), each, 0, std::numeric_limits<std::uint32_t>::max()));
        }
    }

    activation read_activation(const std::string& key, const json& value) const {
        const auto named = value.is_string() ? activation_from_string(value.get<std::string>()) : std::nullopt;
        if (!named) refuse(key, "accepted are none, relu, gelu, sigmoid, tanh and softmax");
        return *named;
    }

    queue_policy read_policy(const std::string& where, const json& value) const {
        queue_policy to;
        const readers keys{
            {"timeout_action",
             [&](const std::string& key, const json& v) {
                 if (v != "reject" && v != "delay") refuse(key, R"(accepted are "reject" and "delay")");
                 to.timeout_action = v == "reject" ? timeout_action::reject : timeout_action::delay;
             }},
            {"timeout_us",
             [&](const std::string& key, const json& v) { to.timeout_us = number(key, v, 0, an_hour_us); }},
            {"allow_timeout_override",
             [&](const std::string& key, const json& v) {
                 if (!v.is_boolean()) refuse(key, "accepted are true and false");
                 to.allow_timeout_override = v.get<bool>();
             }},
            {"queue", [&](const std::string& key, const json& v) { to.queue = number(key, v, 0, most_waiting); }},
        };
        if (!value.is_object()) refuse(where, "accepted is an object with the keys " + known(keys));
        read_object(where, value, keys);
        return to;
    }

    void read_policies(const std::string& where, const json& value) {
        if (!value.is_object())
            refuse(where, R"(accepted is an object with policies by their priorities, such as {"1": {"queue": 10}})");
        for (const auto& [key, policy] : value.items()) {
            std::size_t priority = 0;
            const auto [end, failure] = std::from_chars(key.data(), key.data() + key.size(), priority);
            const bool is_number = failure == std::errc() && end == key.data() + key.size() && key.front() != '0';
            if (!is_number) refuse(within(where, key), "a key here is a priority, such as \"1\"");
            to_.priority_queue_policy.emplace(priority, read_policy(within(where, key), policy));
        }
    }

    void require_priorities(bool has_default) const {
        const std::size_t levels = to_.priority_levels;
        if (levels == 0) {
            if (has_default) refuse("default_priority", "there are no priorities without 'priority_levels'");
            if (!to_.priority_queue_policy.empty())
                refuse("priority_queue_policy", "there are no priorities without 'priority_levels'");
            return;
        }
        const std::string range = "1 to " + std::to_string(levels);
        if (to_.default_priority == 0 || to_.default_priority > levels)
            refuse("default_priority",
                   "this key is needed with 'priority_levels'; accepted is an integer from " + range);
        if (!to_.priority_queue_policy.empty() && to_.priority_queue_policy.rbegin()->first > levels) {
            refuse(within("priority_queue_policy", std::to_string(to_.priority_queue_policy.rbegin()->first)),
                   "the priorities are " + range);
        }
    }

    void require_preferred() const {
        const auto& rows = to_.preferred_batch_size;
        if (!rows.empty() && to_.max_batch && rows.back() > *to_.max_batch)
            refuse("preferred_batch_size", "a number is greater than 'max_batch'");
    }

    reader count(std::size_t model_config::* member, std::size_t least, std::size_t most) {
        return [=, this](const std::string& key, const json& value) { to_.*member = number(key, value, least, most); };
    }

    const std::filesystem::path& file_;
    model_config& to_;
    bool says_latest_ = false;  // written down
    const readers keys_{
        {"max_batch", [this](const std::string& key, const json& v) { to_.max_batch = number(key, v, 1, most_rows); }},
        {"preferred_batch_size", [this](const std::string& key, const json& v) { read_preferred(key, v); }},
        {"max_delay_us", count(&model_config::max_delay_us, 0, 10'000'000)},
        {"queue", count(&model_config::queue, 1, most_waiting)},
        {"instances", count(&model_config::instances, 1, 256)},
        {"caller_thread_us", count(&model_config::caller_thread_us, 0, 1'000'000)},
        {"timeout_us", count(&model_config::timeout_us, 0, an_hour_us)},
        {"priority_levels", count(&model_config::priority_levels, 0, 1000)},
        {"default_priority", count(&model_config::default_priority, 0, 1000)},
        {"default_queue_policy",
         [this](const std::string& key, const json& v) { to_.default_queue_policy = read_policy(key, v); }},
        {"priority_queue_policy", [this](const std::string& key, const json& v) { read_policies(key, v); }},
        {"shares", [this](const std::string& key, const json& v) { read_shares(key, v); }},
        {"versions", [this](const std::string& key, const json& v) { read_versions(key, v); }},
        {"device",
         [this](const std::string& key, const json& v) {
             if (!v.is_string()) refuse(key, "accepted is the name of a device, such as \"cpu:0\"");
             to_.device = v.get<std::string>();
         }},
        {"devices", [this](const std::string& key, const json& v) { read_devices(key, v); }},
        {"precision",
         [this](const std::string& key, const json& v) {
             const auto named = v.is_string() ? nn::precision_from_string(v.get<std::string>()) : std::nullopt;
             if (!named) refuse(key, "accepted are f32, bf16, f16 and int8");
             to_.precision = *named;
         }},
        {"kept_bytes",
         [this](const std::string& key, const json& v) { to_.kept_bytes = number(key, v, 0, std::size_t{1} << 40); }},
        {"resident",
         [this](const std::string& key, const json& v) {
             if (!v.is_boolean()) refuse(key, "accepted are true and false");
             to_.resident = v.get<bool>();
         }},
        {"state", [this](const std::string& key, const json& v) { read_state(key, v); }},
        {"state_shapes", [this](const std::string& key, const json& v) { read_state_shapes(key, v); }},
        {"max_sequences", count(&model_config::max_sequences, 0, most_waiting)},
        {"sequence_idle_ms", count(&model_config::sequence_idle_ms, 1, std::size_t{7} * 24 * 3'600'000)},
        {"activation",
         [this](const std::string& key, const json& v) { to_.hidden_activation = read_activation(key, v); }},
        {"output_activation",
         [this](const std::string& key, const json& v) { to_.output_activation = read_activation(key, v); }},
    };
};

}  // namespace

model_config parse_model_config(const std::string& text, const std::filesystem::path& file) {
    model_config config;
    config_reader reader(file, config);
    if (file.extension() == ".json") {
        reader.read(parse_config_json(text, file));
    } else if (file.extension() == ".yaml") {
        reader.read(parse_config_yaml(text, file));
    } else if (file.extension() == ".pbtxt") {
        pbtxt_config its = parse_config_pbtxt(text, file);
        reader.read(its.keys);
        config.name = std::move(its.name);
        config.model_file = std::move(its.model_file);
        config.inputs = std::move(its.inputs);
        config.outputs = std::move(its.outputs);
    } else {
        throw file_error(file, file_error::no_offset, "", "a configuration ends in .json, .yaml or .pbtxt");
    }
    return config;
}

model_config read_model_config(const std::filesystem::path& file) {
    const io::regular_file from(file);  // a pipe or a device would never end
    if (from.bytes() > longest_file) throw file_error(file, file_error::no_offset, "", "the file is longer than 1 MiB");
    const std::vector<std::byte> bytes = from.read_all();
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return parse_model_config(text, file);
}

}  // namespace sluice::serve

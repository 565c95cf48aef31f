// SPDX-License-Identifier: Apache-2.0
#include <set>
#include <vector>

#include "serve/config_text.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::serve {
namespace {

using json = nlohmann::json;

// Sees each key while the text is parsed.
class key_watch {
public:
    explicit key_watch(const std::filesystem::path& file) : file_(file) {}

    void see(int depth, json::parse_event_t event, const json& value) {
        using kind = json::parse_event_t;
        if (static_cast<std::size_t>(depth) > deepest_config) refuse("", "the objects are too deep");
        if (event == kind::object_start) keys_.emplace_back();
        if (event == kind::object_end) keys_.pop_back();
        // Which of two values holds would be a guess.
        if (event == kind::key && !keys_.back().insert(value.get<std::string>()).second && twice_.empty())
            twice_ = in_quotes(value.get<std::string>());
    }

    // When the whole text is known to be JSON.
    void finish() const {
        if (!twice_.empty()) refuse(twice_, "this key is there twice");
    }

    [[noreturn]] void refuse(const std::string& key, const std::string& why) const {
        throw file_error(file_, file_error::no_offset, key, why);
    }

private:
    const std::filesystem::path& file_;
    std::vector<std::set<std::string>> keys_;  // of the objects that are open
    std::string twice_;
};

}  // namespace

json parse_config_json(const std::string& text, const std::filesystem::path& file) {
    key_watch keys(file);
    try {
        json all = json::parse(text, [&](int depth, json::parse_event_t event, json& value) {
            keys.see(depth, event, value);
            return true;
        });
        keys.finish();
        return all;
    } catch (const json::exception& failure) {
        keys.refuse("", "this is no JSON: " + printable(failure.what(), 200));
    }
}

}  // namespace sluice::serve

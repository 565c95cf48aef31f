// SPDX-License-Identifier: Apache-2.0
// YAML by its events. So no alias is ever followed, and nothing is built of what is refused.
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <sstream>
#include <vector>

#include "serve/config_text.hpp"
#include "serve/utf8.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/serve/model_config.hpp"

namespace sluice::serve {
namespace {

using json = nlohmann::json;

constexpr std::string_view core = "tag:yaml.org,2002:";

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
    return std::ranges::find(words, text) != words.end();
}

// The core schema of YAML 1.2 writes integers as 12, -3, 0o17 and 0xff.
std::optional<json> integer_of(std::string_view text) {
    const bool is_negative = text.starts_with('-');
    int base = 10;
    if (text.starts_with("0o")) base = 8;
    if (text.starts_with("0x")) base = 16;
    if (base != 10)
        text.remove_prefix(2);
    else if (is_negative || text.starts_with('+'))
        text.remove_prefix(1);
    std::uint64_t value = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (text.empty() || failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
    if (!is_negative) return json(value);
    // Its exact value does not matter: no key takes a negative number.
    return json(-static_cast<double>(value));
}

bool is_float(std::string_view text) {
    const auto digits = [&] {
        std::size_t count = 0;
        while (count < text.size() && text[count] >= '0' && text[count] <= '9') ++count;
        text.remove_prefix(count);
        return count;
    };
    if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
    if (is_one_of(text, {".inf", ".Inf", ".INF"})) return true;
    std::size_t mantissa = digits();
    if (text.starts_with('.')) {
        text.remove_prefix(1);
        mantissa += digits();
    }
    if (mantissa == 0) return false;
    if (!text.starts_with('e') && !text.starts_with('E')) return text.empty();
    text.remove_prefix(1);
    if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
    return digits() != 0 && text.empty();
}

// Of a scalar without quotes and without a tag.
json value_of(const std::string& text) {
    if (is_one_of(text, {"", "~", "null", "Null", "NULL"})) return nullptr;
    if (is_one_of(text, {"true", "True", "TRUE"})) return true;
    if (is_one_of(text, {"false", "False", "FALSE"})) return false;
    if (const auto integer = integer_of(text)) return *integer;
    // No key takes such a number, so its value does not matter.
    if (is_float(text) || is_one_of(text, {".nan", ".NaN", ".NAN"})) return 0.5;
    return text;
}

class yaml_values final : public YAML::EventHandler {
public:
    explicit yaml_values(const std::filesystem::path& file) : file_(file) {}

    void OnDocumentStart(const YAML::Mark& at) override {
        if (!documents_.empty()) refuse(at, "the file has a second document");
    }
    void OnDocumentEnd() override {}
    void OnNull(const YAML::Mark& at, YAML::anchor_t anchor) override {
        require_no_anchor(at, anchor);
        if (expects_key()) refuse(at, "a key is a text");
        put(nullptr);
    }
    void OnAlias(const YAML::Mark& at, YAML::anchor_t) override {
        refuse(at, "aliases (*name) are not accepted: write the value itself");
    }
    void OnScalar(const YAML::Mark& at, const std::string& tag, YAML::anchor_t anchor,
                  const std::string& text) override {
        require_no_anchor(at, anchor);
        // yaml-cpp makes one byte of each of these.
        if (!is_utf8(text)) refuse(at, "the escapes \\N and \\_ are not accepted: write \\u0085 and \\u00a0");
        if (expects_key()) return take_key(at, tag, text);
        put(scalar(at, tag, text));
    }
    void OnSequenceStart(const YAML::Mark& at, const std::string& tag, YAML::anchor_t anchor,
                         YAML::EmitterStyle::value) override {
        open(at, tag, anchor, "seq", json::array());
    }
    void OnSequenceEnd() override { close(); }
    void OnMapStart(const YAML::Mark& at, const std::string& tag, YAML::anchor_t anchor,
                    YAML::EmitterStyle::value) override {
        open(at, tag, anchor, "map", json::object());
    }
    void OnMapEnd() override { close(); }

    bool has_document() const noexcept { return !documents_.empty(); }
    json take() { return std::move(documents_.front()); }

    [[noreturn]] void refuse(const YAML::Mark& at, const std::string& why) const {
        throw file_error(file_, file_error::no_offset, "line " + std::to_string(at.line + 1), why);
    }

private:
    struct collection {
        json value;
        std::optional<std::string> key = {};  // whose value comes next
    };

    bool expects_key() const { return !open_.empty() && open_.back().value.is_object() && !open_.back().key; }

    void require_no_anchor(const YAML::Mark& at, YAML::anchor_t anchor) const {
        if (anchor != 0) refuse(at, "anchors (&name) are not accepted: write the value where it is used");
    }

    void take_key(const YAML::Mark& at, const std::string& tag, const std::string& text) {
        if (!is_one_of(tag, {"", "?", "!", "tag:yaml.org,2002:str"})) refuse_tag(at, tag);
        if (open_.back().value.contains(text)) refuse(at, "the key " + in_quotes(text) + " is there twice");
        open_.back().key = text;
    }

    [[noreturn]] void refuse_tag(const YAML::Mark& at, const std::string& tag) const {
        refuse(at, "the tag " + in_quotes(tag) +
                       " is not accepted here; accepted are those of YAML's core schema, where they fit: !!str, !!int, "
                       "!!float, !!bool, !!null, !!seq and !!map");
    }

    json scalar(const YAML::Mark& at, const std::string& tag, const std::string& text) const {
        if (is_one_of(tag, {"", "?"})) return value_of(text);
        if (tag == "!") return text;  // in quotes
        if (!tag.starts_with(core)) refuse_tag(at, tag);
        const std::string_view name = std::string_view(tag).substr(core.size());
        if (name == "str") return text;
        json value = value_of(text);
        const bool fits = (name == "int" && integer_of(text)) || (name == "float" && value.is_number()) ||
                          (name == "bool" && value.is_boolean()) || (name == "null" && value.is_null());
        if (!fits) refuse_tag(at, tag);
        return value;
    }

    void open(const YAML::Mark& at, const std::string& tag, YAML::anchor_t anchor, std::string_view kind, json empty) {
        require_no_anchor(at, anchor);
        if (expects_key()) refuse(at, "a key is a text");
        if (!is_one_of(tag, {"", "?", "!"}) && tag != std::string(core) + std::string(kind)) refuse_tag(at, tag);
        if (open_.size() == deepest_config) refuse(at, "the objects are too deep");
        open_.push_back({std::move(empty)});
    }

    void close() {
        json made = std::move(open_.back().value);
        open_.pop_back();
        put(std::move(made));
    }

    void put(json value) {
        if (open_.empty()) return documents_.push_back(std::move(value));
        collection& to = open_.back();
        if (to.value.is_array()) return to.value.push_back(std::move(value));
        to.value[*to.key] = std::move(value);
        to.key.reset();
    }

    const std::filesystem::path& file_;
    std::vector<collection> open_;
    std::vector<json> documents_;
};

// yaml-cpp takes the byte 4 for the end of a file, and other encodings for UTF-8.
void require_plain_text(const std::string& text, const std::filesystem::path& file) {
    const auto is_control = [](char each) {
        const auto byte = static_cast<unsigned char>(each);
        return (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7f;
    };
    if (std::ranges::any_of(text, is_control))
        throw file_error(file, file_error::no_offset, "", "the file has control characters");
    if (!is_utf8(text)) throw file_error(file, file_error::no_offset, "", "the file is no UTF-8");
}

}  // namespace

bool yaml_supported() noexcept { return true; }
std::string why_no_yaml() { return {}; }

json parse_config_yaml(const std::string& text, const std::filesystem::path& file) {
    require_plain_text(text, file);
    yaml_values values(file);
    try {
        std::istringstream in(text);
        YAML::Parser parser(in);
        while (parser.HandleNextDocument(values)) {
        }
    } catch (const YAML::Exception& failure) {
        values.refuse(failure.mark, "this is no YAML: " + printable(failure.msg, 200));
    }
    if (!values.has_document()) throw file_error(file, file_error::no_offset, "", "the file has no document of YAML");
    return values.take();
}

}  // namespace sluice::serve

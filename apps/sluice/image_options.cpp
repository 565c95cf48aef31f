// SPDX-License-Identifier: Apache-2.0
#include "image_options.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <sstream>
#include <string_view>

#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::app {

const char* const image_keys =
    "size=WxH or size=N (the shorter side), crop=WxH or crop=N (the middle), channels=grey, rgb or rgba, "
    "layout=nchw or nhwc, scale=X, mean=X or X,Y,Z, std=X or X,Y,Z";

namespace {

constexpr std::string_view metadata_prefix = "sluice.image.";

// One key as it was given, and by what: "--image" or "the network's metadata".
struct setting {
    std::string value;
    std::string from;
};
using settings = std::map<std::string, setting, std::less<>>;

[[noreturn]] void refuse_setting(const std::string& key, const setting& given) {
    throw error(errc::invalid_argument,
                given.from + ": " + in_quotes(key + "=" + given.value) + " is not known; known are " + image_keys,
                {"run"});
}

void add_setting(settings& to, const std::string& key, setting given) {
    const std::string from = given.from;
    if (!to.emplace(key, std::move(given)).second)
        throw error(errc::invalid_argument, from + ": " + in_quotes(key) + " is there twice", {"run"});
}

// All of the text must be the number.
template <typename T>
std::optional<T> number_of(std::string_view text) {
    T value{};
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

std::vector<std::string_view> parts_of(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    for (std::size_t at = 0; at <= text.size();) {
        const std::size_t end = std::min(text.find(separator, at), text.size());
        parts.push_back(text.substr(at, end - at));
        at = end + 1;
    }
    return parts;
}

// WxH, or N, which gives one number.
std::vector<std::size_t> lengths_of(const std::string& key, const setting& given) {
    std::vector<std::size_t> lengths;
    for (const std::string_view each : parts_of(given.value, 'x')) {
        const auto length = number_of<std::size_t>(each);
        if (!length || *length == 0 || *length > io::image_limits().side) refuse_setting(key, given);
        lengths.push_back(*length);
    }
    if (lengths.size() > 2) refuse_setting(key, given);
    return lengths;
}

// A number, or one divided by another: "1/255".
double scale_of(const setting& given) {
    const std::vector<std::string_view> parts = parts_of(given.value, '/');
    const auto number = number_of<double>(parts.front());
    const auto divisor = parts.size() == 2 ? number_of<double>(parts.back()) : std::optional(1.0);
    if (parts.size() > 2 || !number || !divisor) refuse_setting("scale", given);
    const double scale = *number / *divisor;
    if (!std::isfinite(scale) || scale == 0) refuse_setting("scale", given);
    return scale;
}

std::vector<double> numbers_of(const std::string& key, const setting& given, bool may_be_zero) {
    std::vector<double> numbers;
    for (const std::string_view each : parts_of(given.value, ',')) {
        const auto number = number_of<double>(each);
        if (!number || !std::isfinite(*number) || (*number == 0 && !may_be_zero)) refuse_setting(key, given);
        numbers.push_back(*number);
    }
    return numbers;
}

void take_setting(image_options& made, const std::string& key, const setting& given) {
    if (key == "size") {
        const std::vector<std::size_t> lengths = lengths_of(key, given);
        if (lengths.size() == 2) {
            made.size = {lengths[0], lengths[1]};
        } else {
            made.shorter_side = lengths[0];
        }
    } else if (key == "crop") {
        const std::vector<std::size_t> lengths = lengths_of(key, given);
        made.crop = {lengths.front(), lengths.back()};
    } else if (key == "channels") {
        const std::map<std::string_view, io::image_format> known = {
            {"grey", io::image_format::grey}, {"rgb", io::image_format::rgb}, {"rgba", io::image_format::rgba}};
        const auto found = known.find(given.value);
        if (found == known.end()) refuse_setting(key, given);
        made.channels = found->second;
    } else if (key == "layout") {
        if (given.value != "nchw" && given.value != "nhwc") refuse_setting(key, given);
        made.layout = given.value == "nchw" ? io::image_layout::nchw : io::image_layout::nhwc;
    } else if (key == "scale") {
        made.by.scale = scale_of(given);
    } else if (key == "mean") {
        made.by.mean = numbers_of(key, given, true);
    } else if (key == "std") {
        made.by.std = numbers_of(key, given, false);
    } else {
        refuse_setting(key, given);
    }
}

}  // namespace

image_options parse_image_options(const std::string& words,
                                  const std::vector<std::pair<std::string, std::string>>& metadata) {
    settings said, stored;
    std::istringstream text(words);
    for (std::string word; text >> word;) {
        const std::size_t at = word.find('=');
        const bool is_pair = at != std::string::npos;
        add_setting(said, word.substr(0, at), {is_pair ? word.substr(at + 1) : "", "--image"});
    }
    for (const auto& [key, value] : metadata) {
        if (key.starts_with(metadata_prefix))
            add_setting(stored, key.substr(metadata_prefix.size()), {value, "the network's metadata sluice.image"});
    }
    image_options made;
    image_options unused;
    for (const auto& [key, given] : stored) take_setting(said.contains(key) ? unused : made, key, given);
    for (const auto& [key, given] : said) take_setting(made, key, given);
    return made;
}

}  // namespace sluice::app

// SPDX-License-Identifier: Apache-2.0
// A timeline as its reader sees it: drawn, parsed, with its bars and texts.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/trace/trace.hpp"
#include "support/xml_reader.hpp"

namespace sluice::testing {

inline std::string drawn(const trace& of, const timeline_options& options = {}) {
    std::ostringstream text;
    write_timeline(of, text, options);
    return text.str();
}

inline xml_element picture(const trace& of, const timeline_options& options = {}) {
    return xml_reader::read(drawn(of, options));
}

// The bar whose tooltip has the words.
inline const xml_element& bar_with(const xml_element& picture, const std::string& words) {
    for (const xml_element* bar : picture.of_class("bar")) {
        if (bar->child("title").text.find(words) != std::string::npos) return *bar;
    }
    throw std::runtime_error("no bar with " + words);
}

inline std::vector<std::string> texts_of(const xml_element& picture, std::string_view css_class) {
    std::vector<std::string> texts;
    for (const xml_element* each : picture.of_class(css_class)) texts.push_back(each->text);
    return texts;
}

}  // namespace sluice::testing

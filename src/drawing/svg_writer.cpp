// SPDX-License-Identifier: Apache-2.0
#include "drawing/svg_writer.hpp"

#include <ostream>

#include "trace/trace_text.hpp"

namespace sluice::detail {

void svg_writer::begin_group(std::string_view classes) {
    open("g", classes);
    text_ += '>';
}

void svg_writer::title(std::string_view words) {
    text_ += "<title>";
    append_xml(text_, words);
    text_ += "</title>";
}

void svg_writer::rect(std::string_view classes, point at, double width, double height, double radius, double opacity) {
    open("rect", classes);
    attribute("x", at.x).attribute("y", at.y).attribute("width", width).attribute("height", height);
    if (radius > 0) attribute("rx", radius);
    if (opacity < 1) attribute("fill-opacity", opacity);
    text_ += "/>";
}

void svg_writer::line(std::string_view classes, point from, point to) {
    open("line", classes);
    attribute("x1", from.x).attribute("y1", from.y).attribute("x2", to.x).attribute("y2", to.y);
    text_ += "/>\n";
}

void svg_writer::text(std::string_view classes, point at, std::string_view words, std::string_view anchor) {
    open("text", classes);
    attribute("x", at.x).attribute("y", at.y);
    if (anchor != "start") text_.append(" text-anchor=\"").append(anchor).append("\"");
    append_xml(text_ += '>', words);
    text_ += "</text>\n";
}

void svg_writer::curve(std::string_view classes, point from, point to) {
    const double bend = (to.y - from.y) * 0.6;
    open("path", classes);
    coordinates(" d=\"M", from);
    coordinates("C", {from.x, from.y + bend});
    coordinates(" ", {to.x, to.y - bend});
    coordinates(" ", to);
    text_ += "\"/>";
}

void svg_writer::arrow_head(std::string_view classes, point at, double direction) {
    open("path", classes);
    coordinates(" d=\"M", at);
    coordinates("L", {at.x - 3.5, at.y - 6 * direction});
    coordinates("L", {at.x + 3.5, at.y - 6 * direction});
    text_ += "Z\"/>";
}

svg_writer& svg_writer::markup(std::string_view markup) {
    text_ += markup;
    return *this;
}

svg_writer& svg_writer::words(std::string_view words) {
    append_xml(text_, words);
    return *this;
}

svg_writer& svg_writer::attribute(std::string_view name, double value) {
    append_compact(text_.append(" ").append(name).append("=\""), value, 2);
    text_ += '"';
    return *this;
}

void svg_writer::finish() {
    text_ += "</svg>\n";
    flush();
}

void svg_writer::open(std::string_view element, std::string_view classes) {
    constexpr std::size_t write_from = 60'000;
    if (text_.size() > write_from) flush();
    text_.append("<").append(element).append(" class=\"").append(classes).append("\"");
}

void svg_writer::coordinates(std::string_view before, point at) {
    append_compact(text_.append(before), at.x, 2);
    append_compact(text_ += ' ', at.y, 2);
}

void svg_writer::flush() {
    to_.write(text_.data(), static_cast<std::streamsize>(text_.size()));
    text_.clear();
}

}  // namespace sluice::detail

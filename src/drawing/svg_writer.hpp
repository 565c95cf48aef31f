// SPDX-License-Identifier: Apache-2.0
// The elements of an SVG picture, written one after another. Looks come from CSS classes.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>

namespace sluice::detail {

class svg_writer {
public:
    struct point {
        double x;
        double y;
    };

    // Writes to the stream in pieces; finish() writes the rest.
    explicit svg_writer(std::ostream& to) : to_(to) {}
    svg_writer(const svg_writer&) = delete;  // two writers would each hold half a picture
    svg_writer& operator=(const svg_writer&) = delete;

    // `classes` and all other names must be plain words; the user's names go through words() and title().

    void begin_group(std::string_view classes);
    void end_group() { text_ += "</g>\n"; }
    // A tooltip for the group that was just begun.
    void title(std::string_view words);

    void rect(std::string_view classes, point at, double width, double height, double radius = 0, double opacity = 1);
    void line(std::string_view classes, point from, point to);
    void text(std::string_view classes, point at, std::string_view words, std::string_view anchor = "start");
    // A curve that leaves and arrives vertically.
    void curve(std::string_view classes, point from, point to);
    // A triangle that points up or down at `at`; `direction` is 1 for down, -1 for up.
    void arrow_head(std::string_view classes, point at, double direction);

    // For elements of the caller's own: `markup` is taken as it is, words() are escaped.
    svg_writer& markup(std::string_view markup);
    svg_writer& words(std::string_view words);
    // name="value", with a space before.
    svg_writer& attribute(std::string_view name, double value);

    void finish();

private:
    void open(std::string_view element, std::string_view classes);
    void coordinates(std::string_view before, point at);
    void flush();

    std::ostream& to_;
    std::string text_;  // not written yet
};

}  // namespace sluice::detail

// SPDX-License-Identifier: Apache-2.0
#include "progress_bar.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace sluice::app {
namespace {

constexpr std::size_t widest_bar = 40;
constexpr std::size_t narrowest_bar = 5;
constexpr std::chrono::milliseconds redraw_interval{100};
constexpr std::chrono::seconds line_interval{1};

// Whether standard error is a terminal that can go back to the begin of a line and clear it.
bool has_cursor() {
    const char* const kind = std::getenv("TERM");
    return isatty(STDERR_FILENO) == 1 && kind != nullptr && *kind != '\0' && std::string_view(kind) != "dumb";
}

}  // namespace

std::string progress_text(std::size_t done, std::size_t total, double rows_per_second, std::size_t columns) {
    const std::size_t room = columns == 0 ? 0 : columns - 1;
    const double part = total == 0 ? 1 : static_cast<double>(std::min(done, total)) / static_cast<double>(total);
    char percent[16], rate[48];
    std::snprintf(percent, sizeof percent, "%3.0f %%", 100 * part);
    std::snprintf(rate, sizeof rate, "  %.0f rows/s", rows_per_second);
    std::string text = percent;
    if (text.size() > room) return {};
    const std::size_t bar_frame = std::string_view("[] ").size();
    // The bar is worth more than the rate where both do not fit.
    const bool has_rate = text.size() + std::string_view(rate).size() + bar_frame + narrowest_bar <= room;
    if (has_rate) text += rate;
    if (text.size() + bar_frame + narrowest_bar > room) return text;
    const std::size_t bar = std::min(widest_bar, room - text.size() - bar_frame);
    const auto filled = static_cast<std::size_t>(part * static_cast<double>(bar));
    return "[" + std::string(filled, '#') + std::string(bar - filled, '.') + "] " + text;
}

std::size_t terminal_columns() {
    if (const char* const text = std::getenv("COLUMNS")) {
        const std::string_view number = text;
        std::size_t columns = 0;
        const auto [end, failure] = std::from_chars(number.data(), number.data() + number.size(), columns);
        if (failure == std::errc() && end == number.data() + number.size() && columns > 0) return columns;
    }
    winsize size{};
    if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
    return 80;
}

progress_bar::progress_bar(std::size_t total, bool as_lines)
    : total_(total), on_terminal_(has_cursor()), as_lines_(as_lines && !on_terminal_) {}

progress_bar::~progress_bar() {
    if (on_terminal_ && drawn_ != clock::time_point{}) std::fputs("\r\x1b[K", stderr);
}

void progress_bar::update(std::size_t done) {
    const auto now = clock::now();
    if ((!on_terminal_ && !as_lines_) || total_ == 0) return;
    const bool is_last = as_lines_ && done == total_ && !ended_;
    if (!is_last && now - drawn_ < (as_lines_ ? clock::duration(line_interval) : redraw_interval)) return;
    drawn_ = now;
    ended_ = done == total_;
    const double seconds = std::max(1e-9, std::chrono::duration<double>(now - start_).count());
    const double rate = static_cast<double>(done) / seconds;
    if (as_lines_) {
        std::fprintf(stderr, "%zu of %zu rows, %.0f rows/s\n", done, total_, rate);
        return;
    }
    // The width may change while the run lasts.
    std::fprintf(stderr, "\r%s\x1b[K", progress_text(done, total_, rate, terminal_columns()).c_str());
    std::fflush(stderr);
}

}  // namespace sluice::app

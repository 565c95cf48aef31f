#include "progress_bar.hpp"

#include <unistd.h>

#include <cstdio>
#include <string>

namespace sluice::app {
namespace {

constexpr std::size_t width = 40;
constexpr std::chrono::milliseconds redraw_interval{100};
constexpr std::chrono::seconds line_interval{1};

}  // namespace

progress_bar::progress_bar(std::size_t total, bool always)
    : total_(total), on_terminal_(isatty(STDERR_FILENO) == 1), as_lines_(always && !on_terminal_) {}

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
    const double rate = static_cast<double>(done) / std::chrono::duration<double>(now - start_).count();
    if (as_lines_) {
        std::fprintf(stderr, "%zu of %zu rows, %.0f rows/s\n", done, total_, rate);
        return;
    }
    const std::size_t filled = width * done / total_;
    const std::string bar = std::string(filled, '#') + std::string(width - filled, '.');
    std::fprintf(stderr, "\r[%s] %3zu %%  %.0f rows/s\x1b[K", bar.c_str(), 100 * done / total_, rate);
    std::fflush(stderr);
}

}  // namespace sluice::app

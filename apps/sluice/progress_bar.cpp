#include "progress_bar.hpp"

#include <unistd.h>

#include <cstdio>
#include <string>

namespace sluice::app {
namespace {

constexpr std::size_t width = 40;
constexpr std::chrono::milliseconds redraw_interval{100};

}  // namespace

progress_bar::progress_bar(std::size_t total) : total_(total), on_terminal_(isatty(STDERR_FILENO) == 1) {}

progress_bar::~progress_bar() {
    if (on_terminal_ && drawn_ != clock::time_point{}) std::fputs("\r\x1b[K", stderr);
}

void progress_bar::update(std::size_t done) {
    const auto now = clock::now();
    if (!on_terminal_ || total_ == 0 || now - drawn_ < redraw_interval) return;
    drawn_ = now;
    const std::size_t filled = width * done / total_;
    const double seconds = std::chrono::duration<double>(now - start_).count();
    const std::string bar = std::string(filled, '#') + std::string(width - filled, '.');
    std::fprintf(stderr, "\r[%s] %3zu %%  %.0f rows/s\x1b[K", bar.c_str(), 100 * done / total_,
                 static_cast<double>(done) / seconds);
    std::fflush(stderr);
}

}  // namespace sluice::app

// A progress bar on a terminal. Where standard error is none: silent, or lines if they are asked for.
#pragma once

#include <chrono>
#include <cstddef>

namespace sluice::app {

class progress_bar {
public:
    // With `always`, tells it as lines where there is no terminal.
    progress_bar(std::size_t total, bool always);
    progress_bar(const progress_bar&) = delete;  // one bar, one line
    progress_bar& operator=(const progress_bar&) = delete;
    // Clears the line.
    ~progress_bar();

    // Draws at most ten times a second, or writes a line at most once a second, and one for the end.
    void update(std::size_t done);

private:
    using clock = std::chrono::steady_clock;

    const std::size_t total_;
    const bool on_terminal_;
    const bool as_lines_;
    const clock::time_point start_ = clock::now();
    clock::time_point drawn_{};
    bool ended_ = false;
};

}  // namespace sluice::app

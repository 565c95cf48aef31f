// SPDX-License-Identifier: Apache-2.0
// Progress on standard error: a bar on a terminal, as wide as the terminal allows. Elsewhere nothing, or lines where
// they are requested.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace sluice::app {

// What fits into one line of `columns` characters, of: a bar of at most 40, percent, rows a second. Percent alone where
// there is no room for more, nothing where there is none for that. The last column stays free: a character there would
// make some terminals begin another line.
std::string progress_text(std::size_t done, std::size_t total, double rows_per_second, std::size_t columns);

// The width of the terminal on standard error: COLUMNS where it is a number above 0, else what the terminal reports,
// else 80.
std::size_t terminal_columns();

class progress_bar {
public:
    // With `as_lines`, writes lines where standard error is no terminal, or one without a cursor (TERM=dumb or none).
    progress_bar(std::size_t total, bool as_lines);
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

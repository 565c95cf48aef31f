// A progress bar on a terminal; silent where standard error is none.
#pragma once

#include <chrono>
#include <cstddef>

namespace sluice::app {

class progress_bar {
public:
    explicit progress_bar(std::size_t total);
    progress_bar(const progress_bar&) = delete;  // one bar, one line
    progress_bar& operator=(const progress_bar&) = delete;
    // Clears the line.
    ~progress_bar();

    // Draws at most ten times a second.
    void update(std::size_t done);

private:
    using clock = std::chrono::steady_clock;

    const std::size_t total_;
    const bool on_terminal_;
    const clock::time_point start_ = clock::now();
    clock::time_point drawn_{};
};

}  // namespace sluice::app

// Signals that ask a run to stop.
//
// Thread safety: one guard at a time, made and destroyed on one thread; the rest may be called on any.
#pragma once

#include <filesystem>

namespace sluice::app {

// While it lives, SIGINT and SIGTERM only ask; the run ends between two batches and leaves no file behind.
class signal_guard {
public:
    signal_guard();
    signal_guard(const signal_guard&) = delete;  // it undoes what it did
    signal_guard& operator=(const signal_guard&) = delete;
    ~signal_guard();

    // Whether somebody has asked.
    bool asked() const noexcept;
    // Throws interruption when somebody has asked.
    void check() const;

private:
    using handler = void (*)(int);

    handler interrupt_;
    handler terminate_;
};

}  // namespace sluice::app

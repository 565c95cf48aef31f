// Signals that ask a run to stop.
//
// Thread safety: one guard at a time, used on one thread; but asked() and check() on any.
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

    // From now on who asks also removes this file, at once: for when a batch may take longer than there is time. One
    // file at a time; a name that is too long for the system is left alone.
    void remove_when_asked(const std::filesystem::path& file) noexcept;
    void remove_nothing() noexcept;

private:
    using handler = void (*)(int);

    handler interrupt_;
    handler terminate_;
};

}  // namespace sluice::app

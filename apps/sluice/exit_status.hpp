// What the tool tells the shell.
#pragma once

#include <exception>

namespace sluice::app {

enum exit_status : int {
    success = 0,
    failed = 1,         // a device, the system, or something unforeseen
    bad_input = 2,      // the command line, a file, or a device that is not there: nothing was written
    interrupted = 130,  // by a signal: nothing was written
};

// Thrown when the user interrupts.
class interruption : public std::exception {
public:
    const char* what() const noexcept override { return "interrupted"; }
};

// The status for an exception.
exit_status status_of(const std::exception& failure) noexcept;

}  // namespace sluice::app

// SPDX-License-Identifier: Apache-2.0
// error, device_error, out_of_memory, file_error: the exceptions that Sluice throws, and their codes. An error is a
// std::system_error that also knows which operation failed, on which device, and which source line requested it. Two
// things do not derive from it: std::logic_error when the result of a coroutine is taken twice, and what user code and
// the standard library throw.
//
// Thread safety: error objects are immutable once thrown.
//
// All functions here take time at most linear in the length of the texts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

#include "sluice/base/source_location.hpp"

namespace sluice {

// What went wrong, in an error's code(). The codes are of sluice_category(), and convert to std::error_code.
enum class errc {
    invalid_argument = 1,  // a call was made with arguments it documents as wrong
    shape_mismatch,        // tensors whose shapes do not fit together
    device_not_found,      // the requested device does not exist
    out_of_memory,         // a device or the host has not enough memory left
    unsupported,           // this build, device or driver cannot do what was requested
    device_failed,   // the device reported a fault and accepts no more work; or a library on it reported a failure
    runtime_closed,  // the runtime that owned the device has been destroyed
    timed_out,       // a deadline has passed; the work is abandoned
    canceled,        // a stop was requested; the work is abandoned
    graph_refused,   // something that cannot be done inside a graph, or to one
    bad_file,        // a file's contents were refused
    io_failed,       // the operating system refused to read or write
    out_of_range,    // a kernel accessed an element that does not exist (check_bounds.hpp)
};

const std::error_category& sluice_category() noexcept;  // of the codes of errc
// The code in sluice_category(); makes `error.code() == errc::out_of_memory` work.
std::error_code make_error_code(errc code) noexcept;

// What an error concerns. All fields are optional; empty ones are left out of the message.
struct error_context {
    std::string_view operation = {};  // the name of the operation or command
    std::string_view device = {};     // the name of the device
    source_location location = {};    // line 0 means unknown
};

class error : public std::system_error {
public:
    // The text of what() is made here. An empty part of the context is left out of it.
    error(std::error_code code, std::string_view message, const error_context& context = {});

    // "operation on device: message (asked for at file:line)"; codes of other libraries add their meaning.
    const char* what() const noexcept override { return what_.c_str(); }

    // The command or operation that failed, e.g. "gemm"; empty when there is none.
    const std::string& operation() const noexcept { return operation_; }
    // The device it ran on, e.g. "cuda:0"; empty when there is none.
    const std::string& device() const noexcept { return device_; }
    // The user's source line that requested it; line() is 0 when unknown.
    const source_location& location() const noexcept { return location_; }

private:
    std::string what_;
    std::string operation_;
    std::string device_;
    source_location location_;
};

// A device reported a failure (a CUDA error, a failed library call).
class device_error : public error {
public:
    using error::error;  // as error's
};

// Not enough memory. Nothing was allocated, and everything allocated before is intact.
class out_of_memory : public error {
public:
    // The message names the first two numbers of bytes. The code is errc::out_of_memory.
    out_of_memory(std::size_t requested_bytes, std::size_t free_bytes, const error_context& context = {},
                  std::size_t total_bytes = 0);

    std::size_t requested_bytes() const noexcept { return asked_bytes_; }  // by the allocation that failed; costs O(1)
    std::size_t free_bytes() const noexcept { return free_bytes_; }        // at that time
    std::size_t total_bytes() const noexcept { return total_bytes_; }      // free and in use; 0: not known

private:
    std::size_t asked_bytes_;
    std::size_t free_bytes_;
    std::size_t total_bytes_;
};

}  // namespace sluice

template <>
struct std::is_error_code_enum<sluice::errc> : std::true_type {};

// SPDX-License-Identifier: Apache-2.0
// trace_reader: the lines of a trace, one at a time. It keeps one line, of at most a mebibyte.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <string>

#include "check/event.hpp"

namespace sluice::check {

class trace_reader {
public:
    // Reads the first line, which names the format. Throws file_error (errc::bad_file), as next() does.
    trace_reader(std::istream& from, std::filesystem::path name);

    // False at the end. An incomplete last line, of a program that was killed, is left out; is_cut() is then true.
    bool next(event& to);

    const std::string& program() const noexcept { return program_; }
    std::uint64_t line() const noexcept { return line_; }
    bool is_cut() const noexcept { return is_cut_; }

    // Throws file_error for the current line.
    [[noreturn]] void refuse(const std::string& why) const;

private:
    bool read_line();

    std::istream& from_;
    std::filesystem::path name_;
    std::string program_;
    std::string text_;
    std::uint64_t line_ = 0;
    bool is_cut_ = false;
};

}  // namespace sluice::check

// SPDX-License-Identifier: Apache-2.0
// trace_writer: writes the lines of a trace into a file, with the call stacks
// of the calls.
//
// Thread safety: none; the recorder holds its lock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace sluice::check {

// An address as a trace has it.
inline std::uint64_t number_of(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

class trace_writer {
public:
    // Creates the file; false when that fails.
    bool open(const std::string& file);
    bool is_open() const noexcept { return file_ >= 0; }
    // False in a forked child, whose lines are not the program's: flush() drops them there.
    bool is_owner() const noexcept;

    // A line, key by key.
    void begin(const char* op);
    void begin_header() { line_.assign("{"); }
    void number(const char* key, std::uint64_t value);
    void text(const char* key, std::string_view value);
    void yes(const char* key);
    void begin_list(const char* key);
    void begin_object();
    void end_object() { line_ += '}'; }
    void end_list() { line_ += ']'; }
    void element(std::uint64_t value);
    void end();

    // The number of the caller's stack; writes it the first time. Not between
    // begin() and end().
    std::uint64_t stack();
    void flush() noexcept;

private:
    void separate();
    void append(std::uint64_t value);
    static std::string frame_of(void* address, bool& is_inside);

    struct frame {
        std::string text;
        bool is_inside;  // of CUDA or of the recorder
    };

    int file_ = -1, owner_ = 0;
    std::string line_;
    std::string buffer_;
    std::unordered_map<std::uint64_t, std::uint64_t> stacks_;  // by their hash
    std::unordered_map<void*, frame> frames_;
};

}  // namespace sluice::check

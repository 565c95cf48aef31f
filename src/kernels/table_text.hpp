// SPDX-License-Identifier: Apache-2.0
// What the files of measurements have in common: lines of words and numbers, with a checksum at the end. They are read
// as if someone hostile had written them.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace sluice::kernels {

// Goes through a text line by line and word by word, and knows where it is. `file` is for the messages of its errors;
// it and the text must outlive the reader.
class table_reader {
public:
    table_reader(std::string_view text, const std::filesystem::path& file) : text_(text), file_(file) {}

    // Throws file_error.
    [[noreturn]] void refuse(std::string_view field, std::string_view why) const;

    // Up to `end`, which is passed over.
    std::string_view until(char end, std::string_view field);
    std::string_view word(std::string_view field) { return until(' ', field); }
    // Not negative.
    template <typename Number>
    Number number(char end, std::string_view field) {
        const std::size_t start = at_;
        const std::string_view digits = until(end, field);
        Number made{};
        const auto [stop, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), made);
        if (failure != std::errc() || stop != digits.data() + digits.size() || !(made >= Number{})) {
            at_ = start;
            refuse(field, "is not a number");
        }
        return made;
    }
    // "name value"
    std::string_view named(std::string_view name) {
        require_name(name);
        return until('\n', name);
    }
    template <typename Number>
    Number named_number(std::string_view name) {
        require_name(name);
        return number<Number>('\n', name);
    }
    // The first line, which names the format.
    void require_format(std::string_view line);
    // The checksum of what was read so far, and nothing after it.
    void require_end();

private:
    void require_name(std::string_view name);

    std::string_view text_;
    const std::filesystem::path& file_;
    std::size_t at_ = 0;
};

// The text with its checksum as the last line.
std::string with_checksum(std::string text);

// The text of a regular file of at most that many bytes. Throws file_error, or what the standard library does.
std::string read_table(const std::filesystem::path& file, std::uintmax_t most_bytes);

// Makes the folders that are missing, and puts the whole text in the place of the old file. Throws file_error.
void write_table(const std::filesystem::path& file, std::string_view text);

}  // namespace sluice::kernels

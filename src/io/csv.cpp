// SPDX-License-Identifier: Apache-2.0
#include "sluice/io/csv.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "csv_number.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/io/file_memory.hpp"
#include "sluice/io/mapped_file.hpp"

namespace sluice::io {
namespace {

constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

std::string_view trimmed(std::string_view cell) {
    const auto is_space = [](char each) { return each == ' ' || each == '\t'; };
    while (!cell.empty() && is_space(cell.front())) cell.remove_prefix(1);
    while (!cell.empty() && is_space(cell.back())) cell.remove_suffix(1);
    return cell;
}

// Without the quotes around it.
std::string_view unquoted(std::string_view cell) {
    cell = trimmed(cell);
    if (cell.size() >= 2 && cell.front() == '"' && cell.back() == '"') return trimmed(cell.substr(1, cell.size() - 2));
    return cell;
}

// A doubled quote in a quoted name stands for one.
std::string name_in(std::string_view cell) {
    const std::string_view text = unquoted(cell);
    const bool is_quoted = trimmed(cell).starts_with('"');
    std::string name;
    for (std::size_t i = 0; i < text.size(); ++i) {
        name += text[i];
        if (is_quoted && text.substr(i).starts_with("\"\"")) ++i;
    }
    return name;
}

bool may_separate(char each) {
    const std::string_view in_numbers = "+-.\"#\r\n";
    const bool is_letter = (each >= 'a' && each <= 'z') || (each >= 'A' && each <= 'Z');
    const bool is_digit = each >= '0' && each <= '9';
    return each != '\0' && !is_letter && !is_digit && in_numbers.find(each) == std::string_view::npos;
}

// Moves over the lines of a file and the cells of a line. No cell is copied: memory does not grow with what a file
// claims.
class csv_reader {
public:
    csv_reader(std::string_view file, const std::filesystem::path& path, dtype type)
        : file_(file), path_(path), type_(type) {
        if (file_.starts_with("\xff\xfe") || file_.starts_with("\xfe\xff"))
            throw file_error(path_, 0, "text", "is in UTF-16; save it in UTF-8");
        if (file_.starts_with(byte_order_mark)) at_ = byte_order_mark.size();
        const std::size_t last = file_.find_last_not_of("\r\n");
        end_ = last == std::string_view::npos ? at_ : std::max(at_, last + 1);
    }

    csv_table read(csv_options options) {
        csv_table made;
        made.type = type_;
        do {
            if (!next_line()) throw file_error(path_, at_, "rows", "there are none");
        } while (line_.starts_with('#'));
        separator_ = options.separator ? *options.separator : separator_of(line_);
        made.columns = count_cells();
        if (options.header == csv_header::present || (options.header == csv_header::recognized && is_header())) {
            each_cell([&](std::string_view cell, std::size_t) { made.names.push_back(name_in(cell)); });
            if (!next_line()) throw file_error(path_, at_, "rows", "there are none below the header");
        }
        made.bytes = vector_for<std::byte>(path_, 0, "rows", most_cells(made.columns) * size_of(type_));
        std::byte* to = made.bytes.data();
        do {
            to = read_row(made.columns, to);
            ++made.rows;
        } while (next_line());
        made.bytes.resize(made.rows * made.columns * size_of(type_));
        return made;
    }

private:
    [[noreturn]] void refuse(std::string_view at, const std::string& where, const std::string& why) const {
        throw file_error(path_, static_cast<std::uint64_t>(at.data() - file_.data()),
                         "line " + std::to_string(line_number_) + where, why);
    }
    [[noreturn]] void refuse_cell(std::string_view cell, std::size_t column, const std::string& why) const {
        refuse(cell, ", column " + std::to_string(column + 1), why);
    }

    bool next_line() {
        if (at_ >= end_) return false;
        const std::size_t stop = std::min(file_.find('\n', at_), end_);
        line_ = file_.substr(at_, stop - at_);
        at_ = stop + 1;
        if (line_.ends_with('\r')) line_.remove_suffix(1);
        ++line_number_;
        return true;
    }

    static char separator_of(std::string_view line) {
        for (const char each : {'\t', ';', ','}) {
            if (line.find(each) != std::string_view::npos) return each;
        }
        return ' ';
    }

    // Calls function(cell, column) for each cell of the line, and returns how many there are.
    template <typename Function>
    std::size_t each_cell(const Function& function) const {
        std::string_view rest = separator_ == ' ' ? trimmed(line_) : line_;
        for (std::size_t column = 0;; ++column) {
            const std::size_t stop = end_of_cell(rest, column);
            function(rest.substr(0, stop), column);
            if (stop == rest.size()) return column + 1;
            rest.remove_prefix(stop + 1);
            while (separator_ == ' ' && rest.starts_with(' ')) rest.remove_prefix(1);
        }
    }

    // The position of the separator, or the length.
    std::size_t end_of_cell(std::string_view rest, std::size_t column) const {
        const std::size_t first = rest.find_first_not_of(separator_ == '\t' ? " " : " \t");
        if (first == std::string_view::npos || rest[first] != '"') return std::min(rest.find(separator_), rest.size());
        std::size_t quote = rest.find('"', first + 1);
        while (quote != std::string_view::npos && rest.substr(quote + 1).starts_with('"'))
            quote = rest.find('"', quote + 2);
        if (quote == std::string_view::npos) refuse_cell(rest, column, "the quote does not end in its line");
        const std::size_t stop = std::min(rest.find(separator_, quote + 1), rest.size());
        if (!trimmed(rest.substr(quote + 1, stop - quote - 1)).empty())
            refuse_cell(rest, column, "something follows the quoted text");
        return stop;
    }

    std::size_t count_cells() const {
        return each_cell([](std::string_view, std::size_t) {});
    }

    bool is_header() const {
        const dtype as = type_ == dtype::boolean ? dtype::boolean : dtype::f64;
        std::size_t numbers = 0, counted = 0;
        const std::size_t count = each_cell([&](std::string_view cell, std::size_t column) {
            std::array<std::byte, 8> unused{};
            const std::string_view text = unquoted(cell);
            numbers += parse_number(text, as, unused.data()) == number_text::no_number ? 0 : 1;
            counted += text == std::to_string(column) ? 1 : 0;
        });
        const char* const remedy = ": say whether the first line is a header";
        if (numbers != 0 && numbers != count)
            refuse(line_, "", "some of its cells are numbers and others are not" + std::string(remedy));
        if (counted == count && count > 1)
            refuse(line_, "", "counts its columns, as headers without names do" + std::string(remedy));
        return numbers == 0;
    }

    // In this line and those below it: every line has as many, and each takes a byte and a separator or an end.
    std::size_t most_cells(std::size_t columns) const {
        const std::size_t first = static_cast<std::size_t>(line_.data() - file_.data());
        const std::string_view left = file_.substr(first, end_ - first);
        const auto lines = static_cast<std::size_t>(std::ranges::count(left, '\n')) + 1;
        const std::size_t by_length = left.size() / 2 + 1;
        return columns > by_length / lines ? by_length : lines * columns;
    }

    // Writes the row to `to`, and returns where the next one goes.
    std::byte* read_row(std::size_t columns, std::byte* to) const {
        if (trimmed(line_).empty()) refuse(line_, "", "is empty");
        const auto read = [&](std::string_view cell, std::size_t column) {
            if (column == columns)
                refuse_cell(cell, column, "is one cell too many: the first line has " + std::to_string(columns));
            read_cell(cell, column, to);
            to += size_of(type_);
        };
        const std::size_t count = each_cell(read);
        if (count != columns) {
            refuse(line_, "", "has " + std::to_string(count) + " cells, the first line has " + std::to_string(columns));
        }
        return to;
    }

    void read_cell(std::string_view cell, std::size_t column, std::byte* to) const {
        const std::string_view text = unquoted(cell);
        const std::string type(to_string(type_));
        if (text.empty()) {
            const bool is_float =
                type_ == dtype::f16 || type_ == dtype::bf16 || type_ == dtype::f32 || type_ == dtype::f64;
            refuse_cell(cell, column,
                        is_float ? "is empty; write nan where a number is missing" : "is empty, and must be " + type);
        }
        switch (parse_number(text, type_, to)) {
            case number_text::read: return;
            case number_text::no_number:
                refuse_cell(cell, column,
                            in_quotes(text) + " is no number" +
                                (text.find(',') == std::string_view::npos ? "" : "; numbers have a decimal point"));
            case number_text::not_whole:
                refuse_cell(cell, column, in_quotes(text) + " is not written as a whole number, and must be " + type);
            case number_text::out_of_range:
                refuse_cell(cell, column, in_quotes(text) + " is not in the range of " + type);
        }
    }

    std::string_view file_;
    const std::filesystem::path& path_;
    dtype type_;
    std::size_t at_ = 0;   // of the next line
    std::size_t end_ = 0;  // without empty lines at the end
    std::string_view line_;
    std::size_t line_number_ = 0;
    char separator_ = ',';
};

}  // namespace

csv_table parse_csv(std::span<const std::byte> file, const std::filesystem::path& label, dtype type,
                    csv_options options) {
    if (options.separator && !may_separate(*options.separator)) {
        throw error(errc::invalid_argument,
                    "a table's cells cannot be separated by " + in_quotes(std::string_view(&*options.separator, 1)));
    }
    const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
    return csv_reader(text, label, type).read(options);
}

csv_table read_csv(const std::filesystem::path& path, dtype type, csv_options options) {
    const mapped_file file(path);
    csv_table made = parse_csv(file.bytes(), file.path(), type, options);
    file.require_unchanged();
    return made;
}

}  // namespace sluice::io

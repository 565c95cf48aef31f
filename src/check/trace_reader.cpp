// SPDX-License-Identifier: Apache-2.0
#include "check/trace_reader.hpp"

#include <istream>
#include <nlohmann/json.hpp>
#include <utility>

#include "check/event_fields.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::check {
namespace {

constexpr std::size_t longest_line = std::size_t{1} << 20;
constexpr std::uint64_t version = 1;
constexpr const char* header_key = "sluice_check_trace";

}  // namespace

void trace_reader::refuse(const std::string& why) const {
    throw file_error(name_, file_error::no_offset, "line " + std::to_string(line_), why);
}

trace_reader::trace_reader(std::istream& from, std::filesystem::path name) : from_(from), name_(std::move(name)) {
    if (!read_line()) {
        line_ = 1;
        refuse("is missing; a trace begins with {\"sluice_check_trace\":1}");
    }
    const auto header = nlohmann::json::parse(text_, nullptr, false);
    if (!header.is_object() || !header.contains(header_key) || !header[header_key].is_number_unsigned())
        refuse("is no first line of a trace, which begins with {\"sluice_check_trace\":1}");
    if (header[header_key] != version)
        refuse("names version " + header[header_key].dump() + " of the format; this Sluice reads version 1");
    if (header.contains("refused") && header["refused"].is_string())
        refuse("says that nothing was recorded: " + printable(header["refused"].get<std::string>(), 400));
    if (header.contains("program") && header["program"].is_string()) program_ = header["program"].get<std::string>();
}

// A line ends with a line break; what follows the last one is no line.
bool trace_reader::read_line() {
    text_.clear();
    ++line_;
    std::streambuf* const bytes = from_.rdbuf();
    for (int each = bytes->sbumpc(); each != std::char_traits<char>::eof(); each = bytes->sbumpc()) {
        if (each == '\n') return true;
        if (text_.size() == longest_line) refuse("is longer than 1 MiB");
        text_ += static_cast<char>(each);
    }
    is_cut_ = !text_.empty();
    return false;
}

bool trace_reader::next(event& to) {
    do {
        if (!read_line()) return false;
    } while (text_.empty());
    const auto fields = nlohmann::json::parse(text_, nullptr, false);
    if (!fields.is_object()) refuse("is no JSON object");
    to = {};
    to.line = line_;
    const std::string wrong = read_fields(fields, to);
    if (!wrong.empty()) refuse(wrong);
    return true;
}

}  // namespace sluice::check

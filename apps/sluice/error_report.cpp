// SPDX-License-Identifier: Apache-2.0
#include "error_report.hpp"

#include <unistd.h>

#include <atomic>

#include "json_line.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::app {
namespace {

static_assert(std::atomic<bool>::is_always_lock_free);  // handlers of signals read it
std::atomic<bool> is_json{false};

std::string_view kind_of(exit_status status) noexcept {
    switch (status) {
        case success: return "success";
        case failed: return "failed";
        case bad_input: return "bad_input";
        case missed: return "missed";
        case interrupted: return "interrupted";
    }
    return "failed";
}

void write_now(std::string_view text) noexcept { static_cast<void>(!::write(STDERR_FILENO, text.data(), text.size())); }

// With `"` and `\` escaped: the text has no control characters.
void write_json_text(std::string_view text) noexcept {
    std::size_t written = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '"' && text[i] != '\\') continue;
        write_now(text.substr(written, i - written));
        write_now("\\");
        written = i;
    }
    write_now(text.substr(written));
}

}  // namespace

void report_errors_as_json(bool yes) noexcept { is_json = yes; }

std::string error_line(std::string_view message, exit_status status) {
    if (!is_json) return "sluice: " + printable(message) + "\n";
    const nlohmann::json error{
        {"kind", kind_of(status)}, {"message", printable(message)}, {"status", static_cast<int>(status)}};
    return json_line({{"error", error}}) + "\n";
}

void write_error_from_handler(std::string_view first, std::string_view second, exit_status status) noexcept {
    if (!is_json) {
        write_now("sluice: ");
        write_now(first);
        write_now(second);
        write_now("\n");
        return;
    }
    write_now(R"({"error":{"kind":")");
    write_now(kind_of(status));
    write_now(R"(","message":")");
    write_json_text(first);
    write_json_text(second);
    write_now(R"(","status":)");
    write_now(status == interrupted ? "130" : status == bad_input ? "2" : "1");
    write_now("}}\n");
}

}  // namespace sluice::app

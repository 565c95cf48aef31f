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

// A line that goes out with one call of the system, so that no line of another thread comes between its parts. What
// does not fit goes out before: a line of `capacity` bytes is longer than any path and its message.
class line_in_place {
public:
    line_in_place() = default;
    line_in_place(const line_in_place&) = delete;
    line_in_place& operator=(const line_in_place&) = delete;
    ~line_in_place() { write_out(); }

    void add(std::string_view text) noexcept {
        for (const char each : text) {
            if (size_ == capacity) write_out();
            bytes_[size_++] = each;
        }
    }

    // With `"` and `\` escaped: the text has no control characters.
    void add_json(std::string_view text) noexcept {
        for (const char& each : text) {
            if (each == '"' || each == '\\') add("\\");
            add({&each, 1});
        }
    }

private:
    static constexpr std::size_t capacity = 6000;  // on the stack of a handler of signals

    void write_out() noexcept {
        static_cast<void>(!::write(STDERR_FILENO, bytes_, size_));
        size_ = 0;
    }

    char bytes_[capacity] = {};
    std::size_t size_ = 0;
};

}  // namespace

void report_errors_as_json(bool yes) noexcept { is_json = yes; }

std::string error_line(std::string_view message, exit_status status) {
    if (!is_json) return "sluice: " + printable(message) + "\n";
    const nlohmann::json error{
        {"kind", kind_of(status)}, {"message", printable(message)}, {"status", static_cast<int>(status)}};
    return json_line({{"error", error}}) + "\n";
}

void write_error_from_handler(std::string_view first, std::string_view second, exit_status status) noexcept {
    line_in_place line;
    if (!is_json) {
        line.add("sluice: ");
        line.add(first);
        line.add(second);
        line.add("\n");
        return;
    }
    line.add(R"({"error":{"kind":")");
    line.add(kind_of(status));
    line.add(R"(","message":")");
    line.add_json(first);
    line.add_json(second);
    line.add(R"(","status":)");
    line.add(status == interrupted ? "130" : status == bad_input ? "2" : "1");
    line.add("}}\n");
}

}  // namespace sluice::app

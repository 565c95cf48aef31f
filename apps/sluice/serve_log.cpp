// SPDX-License-Identifier: Apache-2.0
#include "serve_log.hpp"

#include <chrono>
#include <cstddef>
#include <ctime>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>

#include "json_line.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::app {
namespace {

std::string time_text() {
    const auto now = std::chrono::system_clock::now();
    const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
    const auto milliseconds =
        std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
    std::tm parts{};
    ::gmtime_r(&seconds, &parts);
    char text[40];
    const std::size_t length = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &parts);
    std::string made(text, length);
    const std::string digits = std::to_string(milliseconds + 1000);
    return made + "." + digits.substr(1) + "Z";
}

std::string text_of(const serve::log_line& line, bool as_json) {
    if (as_json) {
        nlohmann::json made{
            {"time", time_text()}, {"level", to_string(line.level)}, {"event", line.event}, {"message", line.message}};
        if (!line.model.empty()) made["model"] = line.model;
        if (!line.trace_id.empty()) made["trace_id"] = line.trace_id;
        if (!line.span_id.empty()) made["span_id"] = line.span_id;
        return json_line(made);
    }
    std::string text = time_text() + " " + std::string(to_string(line.level)) + " " + printable(line.message);
    if (!line.trace_id.empty()) text += " trace " + line.trace_id;
    return text;
}

class line_writer {
public:
    line_writer(std::ostream& log, bool as_json) : log_(log), as_json_(as_json) {}

    void write(const serve::log_line& line) {
        std::string text = text_of(line, as_json_) + "\n";
        const std::lock_guard lock(mutex_);
        if (lost_ != 0) {
            const serve::log_line loss{
                .level = log_level::warn,
                .event = "log_lines_lost",
                .message = "the log could not be written: " + std::to_string(lost_) + " lines before this one are lost",
                .model = {}};
            text = "\n" + text_of(loss, as_json_) + "\n" + text;  // a part of a lost line may be there
        }
        log_.clear();  // a stream that has failed once would write nothing more
        log_ << text << std::flush;
        lost_ = log_ ? 0 : lost_ + 1;
    }

private:
    std::ostream& log_;
    const bool as_json_;
    std::mutex mutex_;
    std::size_t lost_ = 0;
};

}  // namespace

serve::log_sink lines_to(std::ostream& log, bool as_json) {
    return [writer = std::make_shared<line_writer>(log, as_json)](const serve::log_line& line) { writer->write(line); };
}

}  // namespace sluice::app

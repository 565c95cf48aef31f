// SPDX-License-Identifier: Apache-2.0
#include "serve_log.hpp"

#include <atomic>
#include <condition_variable>
#include <ctime>
#include <deque>
#include <mutex>
#include <ostream>
#include <thread>
#include <utility>

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

std::string loss_text(std::uint64_t lines, bool as_json) {
    const serve::log_line loss{
        .level = log_level::warn,
        .event = "log_lines_lost",
        .message = "the log could not be written: " + std::to_string(lines) + " lines before this one are lost",
        .model = {}};
    return text_of(loss, as_json) + "\n";
}

}  // namespace

// The lines that wait. The thread owns it too: one that a write holds for ever outlives the writer.
class log_writer::queue {
public:
    queue(std::ostream& log, bool as_json) : log_(log), as_json_(as_json) {}

    void add(const serve::log_line& line) noexcept {
        try {
            std::string text = text_of(line, as_json_) + "\n";
            const std::lock_guard lock(mutex_);
            if (ends_ || waiting_bytes_ + text.size() > most_waiting_bytes) return lose(1);
            if (lost_here_ != 0) push(loss_text(std::exchange(lost_here_, 0), as_json_));
            push(std::move(text));
            has_lines_.notify_one();
        } catch (const std::exception&) {  // no memory for the line
            const std::lock_guard lock(mutex_);
            lose(1);
        }
    }

    void write_all() {
        std::unique_lock lock(mutex_);
        while (true) {
            has_lines_.wait(lock, [&] { return ends_ || !lines_.empty(); });
            if (lines_.empty()) return;
            std::string text = std::move(lines_.front());
            lines_.pop_front();
            waiting_bytes_ -= text.size();
            is_writing_ = true;
            lock.unlock();
            const bool is_written = write(text);
            lock.lock();
            is_writing_ = false;
            if (!is_written) ++lost_;
            if (lines_.empty()) is_idle_.notify_all();
        }
    }

    bool flush(std::chrono::milliseconds at_most) {
        std::unique_lock lock(mutex_);
        return is_idle_.wait_for(lock, at_most, [&] { return lines_.empty() && !is_writing_; });
    }

    void end() noexcept {
        const std::lock_guard lock(mutex_);
        ends_ = true;
        has_lines_.notify_one();
    }

    std::uint64_t lost() const noexcept { return lost_; }

private:
    void push(std::string text) {
        const std::size_t bytes = text.size();
        lines_.push_back(std::move(text));
        waiting_bytes_ += bytes;
    }

    void lose(std::uint64_t lines) noexcept {
        lost_ += lines;
        lost_here_ += lines;
    }

    // On the thread that writes.
    bool write(const std::string& text) {
        log_.clear();  // a stream that has failed once would write nothing more
        if (failed_ != 0) log_ << "\n" << loss_text(failed_, as_json_);  // a part of a lost line may be there
        log_ << text << std::flush;
        failed_ = log_ ? 0 : failed_ + 1;
        return failed_ == 0;
    }

    std::ostream& log_;
    const bool as_json_;
    std::uint64_t failed_ = 0;  // lines since the last one that was written
    std::atomic<std::uint64_t> lost_{0};
    std::mutex mutex_;  // of what follows
    std::condition_variable has_lines_, is_idle_;
    std::deque<std::string> lines_;
    std::size_t waiting_bytes_ = 0;
    std::uint64_t lost_here_ = 0;  // since the last line that is in the queue
    bool is_writing_ = false;
    bool ends_ = false;
};

log_writer::log_writer(std::ostream& log, bool as_json) : queue_(std::make_shared<queue>(log, as_json)) {
    // Not joined: nothing could end a write to a pipe without a reader.
    std::thread([its = queue_] { its->write_all(); }).detach();
}

log_writer::~log_writer() {
    flush(longest_end);
    queue_->end();
}

serve::log_sink log_writer::sink() const {
    return [its = queue_](const serve::log_line& line) { its->add(line); };
}

bool log_writer::flush(std::chrono::milliseconds at_most) const { return queue_->flush(at_most); }
std::uint64_t log_writer::lost() const noexcept { return queue_->lost(); }

std::string log_writer::metrics() const {
    const std::string name = "sluice_log_lines_lost_total";
    return "# HELP " + name + " Lines of the log that could not be written.\n# TYPE " + name + " counter\n" + name +
           " " + std::to_string(lost()) + "\n";
}

}  // namespace sluice::app

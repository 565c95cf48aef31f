// SPDX-License-Identifier: Apache-2.0
// span_file: writes what happened to requests as spans of OpenTelemetry, one message of OTLP/JSON a line.
//
// A part of the file is whole or not there: it gets its name when it is full, or at the end. The first part is FILE,
// the next ones are FILE.1, FILE.2, ... A thread writes; requests do not wait for the disk.
//
// Thread safety: add() may be called on any thread, several at the same time.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "sluice/io/atomic_file.hpp"
#include "sluice/serve/infer_call.hpp"
#include "sluice/serve/log.hpp"
#include "sluice/serve/trace_context.hpp"

namespace sluice::serve {

// A request that is over, for its spans.
struct traced_request {
    using clock = infer_call::clock;  // of all times of a request

    trace_id trace{};                    // to which the request belongs
    span_id span{};                      // of the request
    std::optional<span_id> parent = {};  // the caller's
    clock::time_point begin{}, end{};    // from the whole request to its answer
    infer_call::progress progress = {};  // of the call
    std::string path = {};               // the target of HTTP, or the method of gRPC
    std::string model = {};              // its name
    std::string version = {};            // of the model
    // Of HTTP; of gRPC where is_grpc says so, and then the path is the method.
    int status = 0;
    bool is_grpc = false;  // the request came by gRPC
};

class span_file {
public:
    static constexpr std::size_t part_bytes = 64 << 20;  // of a part, unless the constructor is given another number

    // Creates the first part. Throws file_error (errc::io_failed). `version` is the service's. Costs the file and a
    // thread.
    span_file(std::filesystem::path file, std::string version, log_sink log, std::size_t bytes = part_bytes);
    span_file(const span_file&) = delete;  // it owns a thread
    span_file& operator=(const span_file&) = delete;
    ~span_file();  // end(), but where no span has come there is no file then

    // Spans `request`, and `queue` and `compute` where the call got there. Dropped while too many wait for the disk,
    // and after a failure of the disk, which the log has. Costs O(bytes of the line), and no write.
    void add(const traced_request& what);

    // Writes what is there, and gives the last part its name. Spans that come later are dropped. Blocks for the disk.
    // One caller at a time. Costs the writes that are left.
    void end();

    std::uint64_t written() const noexcept { return written_; }  // requests
    std::uint64_t dropped() const noexcept { return dropped_; }  // the number of requests whose spans were not written

private:
    void work();
    void write(const std::string& lines);
    void begin_part();
    void end_part();
    void fail(const std::exception& failure) noexcept;

    const std::filesystem::path file_;
    const std::string version_;
    const log_sink log_;
    const std::size_t part_bytes_;
    std::size_t parts_ = 0;
    std::uint64_t length_ = 0;               // of the part
    std::unique_ptr<io::atomic_file> part_;  // the thread's, after the construction
    std::atomic<std::uint64_t> written_{0}, dropped_{0};
    std::atomic<bool> has_failed_{false};
    std::mutex mutex_;  // of what follows
    std::string waiting_;
    bool ends_ = false;
    bool keeps_empty_ = true;  // a part without spans gets its name
    std::condition_variable has_work_;
    std::thread thread_;
};

// The line of one request, with its end. Costs O(bytes of the line).
std::string otlp_line(const traced_request& what, const std::string& version);

}  // namespace sluice::serve

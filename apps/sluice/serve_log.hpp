// SPDX-License-Identifier: Apache-2.0
// The log of `sluice serve`: one line an event, as text or as JSON.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>

#include "sluice/serve/log.hpp"

namespace sluice::app {

// Writes lines to a stream on a thread of its own, so that no request waits for a disk, or for who reads a pipe. Lines
// stay whole. Those that cannot be written, because a disk is full or too many wait already, are lost and counted; the
// first one that is written again says how many.
//
// Thread safety: all members may be called on any thread.
class log_writer {
public:
    static constexpr std::size_t most_waiting_bytes = 1 << 20;      // of lines that wait to be written
    static constexpr std::chrono::milliseconds longest_end{1'000};  // of the destructor, for lines that wait

    // `log` must outlive this; where a write to it never returns, also the process.
    log_writer(std::ostream& log, bool as_json);
    log_writer(const log_writer&) = delete;  // it owns a thread
    log_writer& operator=(const log_writer&) = delete;
    ~log_writer();

    // Does not block. It may outlive this: then lines are dropped.
    serve::log_sink sink() const;
    // Blocks until all lines are written, at most for this time. Whether they are.
    bool flush(std::chrono::milliseconds at_most) const;
    std::uint64_t lost() const noexcept;  // lines that were not written
    std::string metrics() const;          // for Prometheus

private:
    class queue;

    const std::shared_ptr<queue> queue_;
};

}  // namespace sluice::app

// SPDX-License-Identifier: Apache-2.0
// A job of many processes, the ranks. They gather values on rank 0, which sends all of them how to continue and when to
// end. The exit status is the same for every rank, whatever happens on one of them.
//
// A rank that fails reports to rank 0, which ends the job with that rank's error. Rank 0 finds a rank that is silent
// for too long, because it hangs or was stopped; the other ranks find rank 0. Then the processes are ended by force. A
// rank waits for others only in loops that check for all of this. MPI's own starter ends the job when one of its
// processes dies.
//
// Thread safety: none. Only the main thread calls it.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mailbox.hpp"
#include "mpi.hpp"
#include "sluice/exit_status.hpp"
#include "sluice/process_guard.hpp"

namespace sluice::app {

class rank_job {
public:
    // `longest_silence` is how long a rank may give no sign of life: as long as a few batches take, at least.
    rank_job(const mpi::session& world, const signal_guard& signals, std::chrono::seconds longest_silence);
    rank_job(const rank_job&) = delete;  // MPI has addresses of parts of it
    rank_job& operator=(const rank_job&) = delete;

    // Runs this rank's part. Blocks until the job has ended on all ranks, and returns the same on all of them. An
    // exception of the part ends the job; rank 0 writes the reason and the rank to `errors`. By then the parts of all
    // ranks have ended, and what they held is destroyed. Does not return when a rank is silent: it writes which one to
    // `errors`, what this rank holds is destroyed, and all processes are ended.
    exit_status carry_out(const std::function<void()>& part, std::ostream& errors);

    // The following calls are for the part, the same calls in the same order on every rank. Each throws what ends the
    // job: interruption, and exceptions that only carry_out understands.

    int rank() const noexcept { return world_.rank(); }
    int size() const noexcept { return world_.size(); }
    const std::string& host_of(int rank) const { return hosts_.at(static_cast<std::size_t>(rank)); }
    // Which of the ranks on this rank's host it is, and of how many.
    int local_rank() const noexcept { return local_rank_; }
    int local_size() const noexcept { return local_size_; }

    // On rank 0, blocks until a value of each rank has arrived, and returns them by rank. Elsewhere returns nothing, at
    // once.
    std::vector<std::string> gather(std::string value);
    // Blocks until rank 0's text has arrived, and returns it. On rank 0 it returns at once.
    std::string share_text(std::string text);
    // Blocks until all ranks have made this call, so that none fails before what follows.
    void agree();
    // Copies rank 0's bytes to every rank. Blocks until all have them. Call it after agree(), since a rank that does
    // not join in looks like one that hangs: this call ends the processes where others throw.
    void broadcast(std::span<std::byte> bytes);

    // A sign of life: this rank has done `rows` of its rows. Call it between batches. Cheap.
    void done(std::size_t rows);
    // On rank 0, calls `report` with the rows that all ranks have done, on each change.
    void on_progress(std::function<void(std::size_t)> report) { on_progress_ = std::move(report); }
    // Gives signs of life while `body` runs on a thread of its own: for work that takes long without a call of done().
    template <class Body>
    std::invoke_result_t<Body> alive_while(Body body) {
        auto in_flight = std::async(std::launch::async, std::move(body));
        while (in_flight.wait_for(rest) != std::future_status::ready) check_job();
        return in_flight.get();
    }

private:
    using clock = std::chrono::steady_clock;
    struct failure {
        int rank;
        exit_status status;
        std::string why;
    };
    class other_rank_failed;
    class job_ended;
    class silence;

    static constexpr std::chrono::microseconds rest{200};  // between two checks: the cores are for the ranks that work

    void introduce();
    // Throws what ends the job.
    void check_job();
    // The same, but of the exceptions that end a job it throws only silence.
    void process_messages();
    void send_sign_of_life();
    void open(letter arrived);
    void check_silence();
    void report_progress() const;
    void post_to_others(int kind, const std::string& text);
    template <class Condition>
    void wait_for(Condition condition);
    template <class Condition>
    void wait_quietly_for(Condition condition);

    // Runs the part. Throws silence, and what MPI itself throws at the end.
    std::optional<failure> failure_of(const std::function<void()>& part);
    void report(const failure& wrong);
    exit_status leave(const std::optional<failure>& wrong);
    exit_status leave_as_first(const std::optional<failure>& wrong);
    // Ends all processes by force.
    [[noreturn]] void abort_job(const std::exception& why);
    void write(const failure& what) const;
    // In words, for an error.
    std::string name_of(int rank) const;

    const mpi::session& world_;
    const signal_guard& signals_;
    const std::chrono::milliseconds longest_silence_;
    mailbox mail_;
    std::ostream* errors_ = nullptr;
    std::vector<std::string> hosts_;
    int local_rank_ = 0;
    int local_size_ = 1;

    clock::time_point looked_;
    clock::time_point gave_sign_;
    struct other {
        clock::time_point heard;
        std::size_t rows = 0;
        std::deque<std::string> values;
        bool has_left = false;
    };
    std::vector<other> others_;  // by rank, this one too
    std::deque<std::string> shared_;
    std::optional<failure> failed_elsewhere_;
    std::optional<exit_status> ended_;
    std::function<void(std::size_t)> on_progress_;
};

}  // namespace sluice::app

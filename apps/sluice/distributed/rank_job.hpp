// A job of many processes, the ranks: they bring values together on rank 0, which tells all of them how to go on and
// when it is over. The end is the same for every rank, whatever happens on one of them.
//
// A rank that fails tells rank 0, which ends the job with that rank's error. A rank that is silent for too long,
// because it hangs or was stopped, is found by rank 0, and rank 0 by the others; then the processes are ended by force.
// Nothing waits for another rank but in a loop that looks for all of this. MPI's own starter ends the job when a
// process of it dies.
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
#include "sluice/signal_guard.hpp"

namespace sluice::app {

class rank_job {
public:
    // `longest_silence` is how long a rank may give no sign of life: as long as a few batches take, at least.
    rank_job(const mpi::session& world, const signal_guard& signals, std::chrono::seconds longest_silence);
    rank_job(const rank_job&) = delete;  // MPI has addresses of parts of it
    rank_job& operator=(const rank_job&) = delete;

    // Runs this rank's part. Blocks until the job is over on all ranks, and returns the same on all of them. What the
    // part throws ends the job; rank 0 writes why, and of which rank, to `errors`. By then the parts of all ranks are
    // over, and what they held is destroyed. Does not return when a rank is silent: it writes which to `errors`, what
    // this rank holds is destroyed, and all processes are ended.
    exit_status carry_out(const std::function<void()>& part, std::ostream& errors);

    // What follows is for the part, the same calls in the same order on every rank. Each throws what ends the job:
    // interruption, and what carry_out alone understands.

    int rank() const noexcept { return world_.rank(); }
    int size() const noexcept { return world_.size(); }
    const std::string& host_of(int rank) const { return hosts_.at(static_cast<std::size_t>(rank)); }
    std::chrono::milliseconds longest_silence() const noexcept { return longest_silence_; }
    // Which of the ranks on this rank's host it is, and of how many.
    int local_rank() const noexcept { return local_rank_; }
    int local_size() const noexcept { return local_size_; }

    // Blocks until rank 0 has one value of each rank, and returns them there, by rank; elsewhere nothing, at once.
    std::vector<std::string> gather(std::string value);
    // Blocks until rank 0's text is here, and returns it. At once on rank 0.
    std::string tell(std::string text);
    // Blocks until all ranks have come here, so that none fails before what follows.
    void agree();
    // Rank 0's bytes, on every rank. Blocks. Behind agree(), since a rank that does not join in cannot be told from one
    // that hangs: this call ends the processes where others throw.
    void broadcast(std::span<std::byte> bytes);

    // Before this rank lets go of what it shares with others outside MPI, which they would take for a failure of their
    // own: rank 0 is told of the first cause at once. Rank 0 itself waits a second for that of another, and throws
    // then. The part must end by throwing `own`.
    void fail_first(const std::exception& own);

    // Blocks until the condition holds; it is looked at again and again.
    void wait_until(const std::function<bool()>& condition);

    // A sign of life: this rank has done so many of its rows. To be called between batches. Cheap.
    void done(std::size_t rows);
    // Rank 0 is told of the rows that all ranks have done, on each change.
    void on_progress(std::function<void(std::size_t)> tell) { on_progress_ = std::move(tell); }
    // Gives signs of life while `body` runs, on a thread of its own: for what takes long and does nothing in between.
    template <class Body>
    std::invoke_result_t<Body> alive_while(Body body) {
        auto under_way = std::async(std::launch::async, std::move(body));
        while (under_way.wait_for(rest) != std::future_status::ready) look_around();
        return under_way.get();
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

    static constexpr std::chrono::microseconds rest{200};  // between two looks: the cores are for the ranks that work

    void introduce();
    // Throws what ends the job.
    void look_around();
    // The same, but that of what ends a job it throws silence alone.
    void look_after_messages();
    void give_sign();
    void open(letter arrived);
    void judge_silence();
    void report_progress() const;
    void post_to_others(int kind, const std::string& text);
    template <class Condition>
    void wait_for(Condition condition);
    template <class Condition>
    void wait_quietly_for(Condition condition);

    // Runs the part. Throws silence, and what MPI itself throws at the end.
    std::optional<failure> what_goes_wrong_in(const std::function<void()>& part);
    void report(const failure& wrong);
    exit_status leave(const std::optional<failure>& wrong);
    exit_status leave_as_first(const std::optional<failure>& wrong);
    // Ends all processes by force.
    [[noreturn]] void give_up(const std::exception& why);
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
    std::deque<std::string> told_;
    std::optional<failure> failed_elsewhere_;
    std::optional<exit_status> ended_;
    std::function<void(std::size_t)> on_progress_;
};

}  // namespace sluice::app

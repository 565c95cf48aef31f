// SPDX-License-Identifier: Apache-2.0
#include "rank_job.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>
#include <thread>

#include "sluice/base/printable.hpp"
#include "sluice/error_report.hpp"

namespace sluice::app {
namespace {

using namespace std::chrono_literals;

// Pieces of a broadcast: MPI counts with int, and between two pieces there is time for signs of life.
constexpr std::size_t piece_bytes = std::size_t{16} << 20;

enum letter_kind : int {
    sign_of_life,  // rows done, as text
    value,         // for gather
    shared,        // by rank 0
    failed_here,   // the exit status as text, a space, and why; to rank 0
    the_end,       // the exit status as text; by rank 0
    farewell,      // this rank's part has ended; by rank 0: that of all ranks has
};

}  // namespace

class rank_job::other_rank_failed : public std::exception {};

// Rank 0 has ended the job.
class rank_job::job_ended : public std::exception {};

class rank_job::silence : public std::exception {
public:
    explicit silence(std::string what) : what_(std::move(what)) {}
    const char* what() const noexcept override { return what_.c_str(); }

private:
    std::string what_;
};

rank_job::rank_job(const mpi::session& world, const signal_guard& signals, std::chrono::seconds longest_silence)
    : world_(world),
      signals_(signals),
      longest_silence_(longest_silence),
      mail_(world),
      looked_(clock::now()),
      gave_sign_(looked_),
      others_(static_cast<std::size_t>(world.size())) {
    for (other& each : others_) each.heard = looked_;
}

exit_status rank_job::carry_out(const std::function<void()>& part, std::ostream& errors) {
    errors_ = &errors;
    try {
        const std::optional<failure> wrong = failure_of(part);
        on_progress_ = nullptr;  // what it reports to is destroyed
        return rank() == 0 ? leave_as_first(wrong) : leave(wrong);
    } catch (const std::exception& end) {  // silence, or MPI itself
        abort_job(end);
    }
}

std::optional<rank_job::failure> rank_job::failure_of(const std::function<void()>& part) {
    std::optional<failure> wrong;
    try {
        introduce();
        part();
    } catch (const silence&) {
        throw;
    } catch (const job_ended&) {  // rank 0 knows why
    } catch (const other_rank_failed&) {
        wrong = failed_elsewhere_;
    } catch (const std::exception& own) {
        wrong = {rank(), status_of(own), message_of(own)};
    }
    // A signal may have removed the output under a rank: the failure that followed is not the cause.
    if (wrong && signals_.requested()) wrong = {rank(), interrupted, message_of(interruption())};
    return wrong;
}

void rank_job::abort_job(const std::exception& why) {
    const bool is_first_to_know = rank() == 0 || dynamic_cast<const silence*>(&why) != nullptr;
    if (failed_elsewhere_) {
        write(*failed_elsewhere_);
    } else if (is_first_to_know) {
        *errors_ << error_line(message_of(why), status_of(why)) << std::flush;
    }
    world_.abort(status_of(why));
}

// Exchanges which rank is on which host.
void rank_job::introduce() {
    const std::vector<std::string> names = gather(world_.host());
    hosts_ = nlohmann::json::parse(share_text(nlohmann::json(names).dump())).get<std::vector<std::string>>();
    const auto here = std::next(hosts_.begin(), rank());
    local_rank_ = static_cast<int>(std::count(hosts_.begin(), here, *here));
    local_size_ = static_cast<int>(std::count(hosts_.begin(), hosts_.end(), *here));
}

std::vector<std::string> rank_job::gather(std::string own) {
    if (rank() != 0) {
        mail_.post(0, value, std::move(own));
        return {};
    }
    others_.front().values.push_back(std::move(own));
    std::vector<std::string> all;
    for (other& each : others_) {
        wait_for([&] { return !each.values.empty(); });
        all.push_back(std::move(each.values.front()));
        each.values.pop_front();
    }
    return all;
}

std::string rank_job::share_text(std::string text) {
    if (rank() == 0) {
        post_to_others(shared, text);
        return text;
    }
    wait_for([&] { return !shared_.empty(); });
    std::string here = std::move(shared_.front());
    shared_.pop_front();
    return here;
}

void rank_job::agree() {
    gather({});
    share_text({});
}

void rank_job::broadcast(std::span<std::byte> bytes) {
    while (!bytes.empty()) {
        const auto piece = bytes.first(std::min(bytes.size(), piece_bytes));
        mpi::request in_flight = world_.broadcast(piece);
        try {
            wait_for([&] { return in_flight.is_done(); });
        } catch (const std::exception& end) {
            abort_job(end);  // MPI writes to this memory until the broadcast ends: it cannot be released
        }
        bytes = bytes.subspan(piece.size());
    }
    agree();  // a rank that has its bytes and fails then would end the broadcast of others
}

void rank_job::done(std::size_t rows) {
    others_[static_cast<std::size_t>(rank())].rows = rows;
    if (clock::now() - looked_ < 5ms) return;
    report_progress();
    check_job();
}

template <class Condition>
void rank_job::wait_for(Condition condition) {
    while (!condition()) {
        check_job();
        if (!condition()) std::this_thread::sleep_for(rest);
    }
}

// For the end of the job, when only silence counts.
template <class Condition>
void rank_job::wait_quietly_for(Condition condition) {
    while (!condition()) {
        process_messages();
        std::this_thread::sleep_for(rest);
    }
}

void rank_job::check_job() {
    signals_.check();
    process_messages();
    if (failed_elsewhere_) throw other_rank_failed();
    if (ended_) throw job_ended();
}

void rank_job::process_messages() {
    const clock::time_point now = clock::now();
    // After a long batch, or when all ranks were stopped together, this rank cannot know how long the others were
    // silent.
    if (now - looked_ > longest_silence_ / 2) {
        for (other& each : others_) each.heard = now;
    }
    looked_ = now;
    send_sign_of_life();
    while (auto arrived = mail_.next()) open(std::move(*arrived));
    check_silence();
}

void rank_job::send_sign_of_life() {
    const std::chrono::milliseconds interval = std::min<std::chrono::milliseconds>(500ms, longest_silence_ / 10);
    if (looked_ - gave_sign_ < interval) return;
    gave_sign_ = looked_;
    const std::string rows = std::to_string(others_[static_cast<std::size_t>(rank())].rows);
    if (rank() == 0) {
        post_to_others(sign_of_life, rows);
    } else {
        mail_.post(0, sign_of_life, rows);
    }
}

void rank_job::open(letter arrived) {
    other& from = others_[static_cast<std::size_t>(arrived.from)];
    from.heard = looked_;
    switch (arrived.kind) {
        case sign_of_life:
            from.rows = std::stoull(arrived.text);
            report_progress();
            break;
        case value: from.values.push_back(std::move(arrived.text)); break;
        case shared: shared_.push_back(std::move(arrived.text)); break;
        case failed_here: {
            const std::size_t space = arrived.text.find(' ');
            const auto status = static_cast<exit_status>(std::stoi(arrived.text));
            // The first one counts: others may have failed because of it.
            if (!failed_elsewhere_) failed_elsewhere_ = {arrived.from, status, arrived.text.substr(space + 1)};
            break;
        }
        case the_end: ended_ = static_cast<exit_status>(std::stoi(arrived.text)); break;
        case farewell: from.has_left = true; break;
    }
}

void rank_job::check_silence() {
    // Rank 0 listens to all others, they to rank 0; each a little later, so that only one of them reports.
    const auto turn = rank() == 0 ? 0ms : std::min<std::chrono::milliseconds>(200ms * (rank() - 1), 5s);
    const int first = rank() == 0 ? 1 : 0, last = rank() == 0 ? size() - 1 : 0;
    for (int each = first; each <= last; ++each) {
        const other& judged = others_[static_cast<std::size_t>(each)];
        if (judged.has_left || looked_ - judged.heard <= longest_silence_ + turn) continue;
        const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(longest_silence_).count();
        throw silence(name_of(each) + " gave no sign of life for " + std::to_string(seconds) +
                      " s (--rank-timeout): it hangs, or its batches take longer than that");
    }
}

void rank_job::report_progress() const {
    if (!on_progress_) return;
    std::size_t rows = 0;
    for (const other& each : others_) rows += each.rows;
    on_progress_(rows);
}

void rank_job::post_to_others(int kind, const std::string& text) {
    for (int each = 1; each < size(); ++each) mail_.post(each, kind, text);
}

void rank_job::report(const failure& wrong) {
    mail_.post(0, failed_here, std::to_string(wrong.status) + ' ' + wrong.why);
}

exit_status rank_job::leave(const std::optional<failure>& wrong) {
    if (wrong) report(*wrong);
    wait_quietly_for([&] { return ended_.has_value(); });
    mail_.post(0, farewell, {});
    wait_quietly_for([&] { return others_.front().has_left && mail_.has_sent_all(); });
    return *ended_;
}

exit_status rank_job::leave_as_first(const std::optional<failure>& wrong) {
    if (wrong) write(*wrong);
    ended_ = wrong ? wrong->status : success;
    post_to_others(the_end, std::to_string(*ended_));
    const auto has_left = [](const other& each) { return each.has_left; };
    wait_quietly_for([&] { return std::all_of(others_.begin() + 1, others_.end(), has_left); });
    // Only now: after this MPI itself waits for all ranks.
    post_to_others(farewell, {});
    wait_quietly_for([&] { return mail_.has_sent_all(); });
    return *ended_;
}

void rank_job::write(const failure& what) const {
    const bool is_of_the_job = what.rank == 0 && (what.status == interrupted || what.status == missed);
    const std::string rank = size() > 1 && !is_of_the_job ? name_of(what.rank) + ": " : "";
    *errors_ << error_line(rank + what.why, what.status) << std::flush;
}

std::string rank_job::name_of(int each) const {
    std::string name = "rank " + std::to_string(each);
    if (!hosts_.empty()) name += " on " + printable(hosts_[static_cast<std::size_t>(each)]);
    return name;
}

}  // namespace sluice::app

// copy_team: threads that help one another to copy host memory. One thread of an H200 machine copies 12.6 GB/s, four
// 28, eight 50 (measured); its copy engine takes 55.
//
// Who has something to copy opens a job and adds pieces to it; helpers, and the thread itself while it waits, copy them
// slice by slice. Helpers start with the first piece, sleep when there is nothing to copy, take turns among the jobs,
// and never wait for anything else. Where the system gives no threads, the jobs' own threads copy alone.
//
// Thread safety: a job belongs to one thread; many threads may have jobs at the same time.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>
#include <vector>

namespace sluice::detail {

class copy_team {
public:
    explicit copy_team(std::size_t most_helpers) : most_helpers_(most_helpers) {}
    copy_team(const copy_team&) = delete;  // its threads point to it
    copy_team& operator=(const copy_team&) = delete;
    // All jobs are over.
    ~copy_team();

    // Something to copy. Kept by whoever adds it until it is finished, or its job is over.
    class piece {
    public:
        piece() = default;
        piece(void* to, const void* from, std::size_t bytes)
            : to_(static_cast<char*>(to)), from_(static_cast<const char*>(from)), bytes_(bytes), left_(bytes) {}

    private:
        friend class copy_team;
        char* to_ = nullptr;
        const char* from_ = nullptr;
        std::size_t bytes_ = 0;
        std::size_t begun_ = 0;  // handed out
        std::size_t left_ = 0;   // not yet copied
        piece* next_ = nullptr;  // of the job, not all handed out
    };

    class job {
    public:
        explicit job(copy_team& team) noexcept : team_(team) {}
        job(const job&) = delete;  // the team points to it
        job& operator=(const job&) = delete;
        // Drops what nobody has begun and waits for the rest.
        ~job();

        // The helpers begin with it, behind the job's earlier pieces. Does not block.
        void add(piece& added) noexcept;
        // Copies along until this piece is there. Blocks for no more than that.
        void finish(piece& wanted) noexcept;

    private:
        friend class copy_team;
        copy_team& team_;
        piece* first_ = nullptr;  // pieces with slices to hand out
        piece* last_ = nullptr;
        std::size_t slices_out_ = 0;  // being copied
        job* next_ = nullptr;         // the team's list
        bool is_listed_ = false;
        bool is_waiting_ = false;
    };

private:
    struct slice {
        piece* of = nullptr;
        std::size_t offset = 0;
        std::size_t bytes = 0;
    };

    // All with the lock held.
    slice take(job& from) noexcept;
    void list(job& added) noexcept;
    void unlist(job& gone) noexcept;
    void hire(std::size_t slices) noexcept;
    // Without it in between.
    void copy(job& of, const slice& what, std::unique_lock<std::mutex>& lock) noexcept;

    void help() noexcept;

    const std::size_t most_helpers_;
    std::mutex mutex_;
    std::condition_variable work_;    // for helpers
    std::condition_variable copied_;  // for jobs
    job* first_ = nullptr;            // jobs with slices to hand out, in turn
    job* last_ = nullptr;
    std::size_t asleep_ = 0;
    bool is_closing_ = false;
    bool may_hire_ = true;
    std::vector<std::thread> helpers_;
};

}  // namespace sluice::detail

// SPDX-License-Identifier: Apache-2.0
// for_parts: the work of one command of a CPU device in several parts, which workers with nothing else to do carry out
// together with the calling thread.
//
//     detail::for_parts(parts, [&](std::size_t part) { ... });
//
// How many parts there are depends on the work only, not on the workers: then results are the same bit by bit on every
// device. A part is worth a wake-up of a thread: 50 µs of work at least.
#pragma once

#include <cstddef>
#include <type_traits>

namespace sluice::detail {

// A function of the number of a part; it is not owned.
struct part_function {
    void (*call)(const void* body, std::size_t part);
    const void* body;

    void operator()(std::size_t part) const { call(body, part); }
};

// What several threads do together. It is not owned.
struct team_function {
    // Takes part until all is done, and then returns true; false, if the thread is needed elsewhere.
    bool (*take_part)(void* body);
    // Does all of it: called instead, once, where no other thread can help.
    void (*do_all)(void* body);
    void* body;
};

// Whether a team is worth the wake-up of a thread, which costs some 10 µs and more. If not, threads that are awake
// help, and one is woken now and then: it is awake for the calls that follow at once.
enum class team_wakes : bool { now_and_then, always };

// Runs the parts of one command.
class part_runner {
public:
    // Calls the function for each number below `parts`, on this thread and on others. Returns when all calls are over.
    // Throws what a call threw first; then parts that had not begun are left out.
    virtual void run_parts(std::size_t parts, part_function function) = 0;
    // Has this thread take part, and up to `others` that help: each of them once at a time, and again after it has
    // returned false. Returns when all calls are over. The function throws nothing. Where a team is not worth a wake-up
    // and other threads compute on all cores, this thread does all of it.
    virtual void run_team(team_function function, std::size_t others, team_wakes wakes) noexcept = 0;
    // On how many threads at most.
    virtual std::size_t threads() const noexcept = 0;
    // Whether a thread that helps is to end its part soon, since other work waits for it.
    virtual bool needs_thread() const noexcept = 0;
    // The thread of a team that is worth a wake-up calls it between two parts. Where all cores computed when the team
    // began, it has no helper; once cores have been free for a millisecond or two, this wakes some.
    virtual void wake_helpers() noexcept = 0;

protected:
    ~part_runner() = default;
};

// While this exists, for_parts of the calling thread uses the runner. Null: it calls one part after the other.
class part_runner_scope {
public:
    explicit part_runner_scope(part_runner* with) noexcept;
    part_runner_scope(const part_runner_scope&) = delete;  // belongs to the thread
    part_runner_scope& operator=(const part_runner_scope&) = delete;
    ~part_runner_scope();

private:
    part_runner* const before_;
};

// Of the calling thread, or null.
part_runner* current_part_runner() noexcept;

template <typename Body>
void for_parts(std::size_t parts, const Body& body) {
    part_runner* const with = parts > 1 ? current_part_runner() : nullptr;
    if (with == nullptr) {
        for (std::size_t part = 0; part < parts; ++part) body(part);
        return;
    }
    with->run_parts(parts,
                    {[](const void* erased, std::size_t part) { (*static_cast<const Body*>(erased))(part); }, &body});
}

// One of `parts` about equal ranges of the numbers below `size`, each but the last a multiple of `unit` long.
struct part_range {
    std::size_t first, last;
};
constexpr part_range range_of_part(std::size_t size, std::size_t parts, std::size_t part, std::size_t unit = 1) {
    const std::size_t units = (size + unit - 1) / unit, least = units / parts, longer = units % parts;
    const auto begin = [&](std::size_t which) {
        const std::size_t at = (which * least + (which < longer ? which : longer)) * unit;
        return at < size ? at : size;
    };
    return {begin(part), begin(part + 1)};
}

// Into how many parts work is divided: each has `least` of it at least, and there are no more than `pieces`. More than
// the usual number of workers, so that one that joins late has something to do.
constexpr std::size_t parts_for(std::size_t work, std::size_t least, std::size_t pieces) {
    constexpr std::size_t most = 32;
    std::size_t parts = work / least;
    parts = parts < most ? parts : most;
    parts = parts < pieces ? parts : pieces;
    return parts != 0 ? parts : 1;
}

}  // namespace sluice::detail

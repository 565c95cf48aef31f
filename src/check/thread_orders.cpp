// SPDX-License-Identifier: Apache-2.0
#include "check/thread_orders.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <random>
#include <utility>

namespace sluice::check {
namespace {

using index = std::uint32_t;

// Which calls follow which, over the objects that they name.
class dependencies {
public:
    explicit dependencies(const std::vector<event>& calls) : followers(calls.size()), open(calls.size()) {
        for (index i = 0; i < calls.size(); ++i) add(calls[i], i);
    }

    std::vector<std::vector<index>> followers;
    std::vector<index> open;

private:
    enum class kind : unsigned char { stream, event, graph, exec, function, stack };
    struct object {
        bool is_known = false;
        index changed = 0;         // by this call; the uses since then are in any order
        std::vector<index> users;  // since then
    };
    struct piece {
        std::uint64_t end = 0;
        object state;
    };

    void follow(index earlier, index later) {
        if (earlier == later) return;
        followers[earlier].push_back(later);
        ++open[later];
    }
    void use(object& of, index i) {
        if (of.is_known) follow(of.changed, i);
        of.users.push_back(i);
    }
    void change(object& of, index i) {
        if (of.is_known) follow(of.changed, i);
        for (const index each : of.users) follow(each, i);
        of = {true, i, {}};
    }
    void use(kind what, std::uint64_t id, index i) { use(objects_[{what, id}], i); }
    void change(kind what, std::uint64_t id, index i) { change(objects_[{what, id}], i); }

    void use_memory(std::uint64_t at, index i) {
        auto after = memory_.upper_bound(at);
        if (after == memory_.begin()) return;
        piece& found = std::prev(after)->second;
        if (at < found.end) use(found.state, i);
    }
    void allocate(const byte_span& what, index i) {
        auto at = memory_.upper_bound(what.at);
        if (at != memory_.begin() && std::prev(at)->second.end > what.at) --at;
        while (at != memory_.end() && at->first < what.end()) {
            change(at->second.state, i);
            at = memory_.erase(at);
        }
        piece& made = memory_[what.at] = {what.end(), {}};
        change(made.state, i);
    }
    void free(std::uint64_t at, index i) {
        const auto freed = memory_.find(at);
        if (freed != memory_.end()) change(freed->second.state, i);  // stays, for what comes there next
    }

    void add(const event& of, index i) {
        if (captures_ != 0 || of.what == call::capture_begin) {
            change(capture_, i);
        } else {
            use(capture_, i);
        }
        if (of.what == call::capture_begin) ++captures_;
        if (of.what == call::capture_end && captures_ != 0) --captures_;
        if (of.function != 0)
            of.what == call::function ? change(kind::function, of.function, i) : use(kind::function, of.function, i);
        if (of.stack != 0) of.what == call::frames ? change(kind::stack, of.stack, i) : use(kind::stack, of.stack, i);
        add_stream(of, i);
        add_objects(of, i);
        add_memory(of, i);
    }
    void add_stream(const event& of, index i) {
        if (!of.has_stream) return;
        switch (of.what) {
            case call::stream:
            case call::stream_destroy:
            case call::stream_done: return change(kind::stream, of.stream, i);
            default: return use(kind::stream, of.stream, i);
        }
    }
    void add_objects(const event& of, index i) {
        switch (of.what) {
            case call::event_done:
            case call::event_destroy: return change(kind::event, of.id, i);
            case call::record:
            case call::wait:
            case call::event_sync: return use(kind::event, of.id, i);
            case call::graph:
            case call::node:
            case call::edge:
            case call::capture_end:
            case call::graph_destroy: return change(kind::graph, of.id, i);
            case call::instantiate: use(kind::graph, of.id, i); return change(kind::exec, of.other, i);
            case call::graph_launch: return use(kind::exec, of.other, i);
            case call::exec_destroy: return change(kind::exec, of.other, i);
            default: return;
        }
    }
    void add_memory(const event& of, index i) {
        switch (of.what) {
            case call::alloc: return allocate(of.to, i);
            case call::free: return free(of.to.at, i);
            case call::copy:
            case call::fill:
            case call::host:
            case call::kernel:
            case call::node:
                for (const argument& each : of.args) use_memory(each.at, i);
                use_memory(of.to.at, i);
                if (of.from.at != 0) use_memory(of.from.at, i);
                return;
            default: return;
        }
    }

    std::map<std::pair<kind, std::uint64_t>, object> objects_;
    std::map<std::uint64_t, piece> memory_;
    object capture_;  // changed by each call during a capture
    int captures_ = 0;
};

// Which thread comes first: the one with the largest number.
struct priorities {
    std::vector<std::int64_t> of;
    std::vector<std::size_t> changes;  // after this many calls, the thread that runs comes last
    std::int64_t least = -1;
};

priorities priorities_of(std::size_t which, std::size_t threads, std::size_t calls) {
    priorities made;
    made.of.resize(threads);
    std::iota(made.of.rbegin(), made.of.rend(), 0);  // by number
    if (which < threads) {
        made.of[which] = static_cast<std::int64_t>(threads);
    } else if (which < 2 * threads) {
        made.of[which - threads] = made.least--;
    } else {
        std::mt19937_64 random(which);
        std::ranges::shuffle(made.of, random);
        for (std::size_t i = 0; i < 1 + which % 3; ++i) made.changes.push_back(random() % calls);
        std::ranges::sort(made.changes);
    }
    return made;
}

}  // namespace

thread_orders::thread_orders(const std::vector<event>& calls) {
    dependencies found(calls);
    followers_ = std::move(found.followers);
    open_ = std::move(found.open);
    std::map<std::uint64_t, std::vector<index>> all;
    for (index i = 0; i < calls.size(); ++i) all[calls[i].thread].push_back(i);
    for (auto& [number, some] : all) {
        if (number == 0) {
            declarations_ = std::move(some);
        } else {
            by_thread_.push_back(std::move(some));
        }
    }
}

std::vector<std::uint32_t> thread_orders::order(std::size_t which) const {
    std::vector<index> made, open = open_;
    made.reserve(open.size());
    priorities first = priorities_of(which, by_thread_.size(), std::max<std::size_t>(open.size(), 1));
    std::vector<std::size_t> next(by_thread_.size());
    std::size_t next_declaration = 0;
    const auto take = [&](index i) {
        made.push_back(i);
        for (const index each : followers_[i]) --open[each];
    };
    while (made.size() != open.size()) {
        if (next_declaration < declarations_.size() && open[declarations_[next_declaration]] == 0) {
            take(declarations_[next_declaration++]);
            continue;
        }
        std::size_t chosen = by_thread_.size();
        for (std::size_t i = 0; i < by_thread_.size(); ++i) {
            const bool is_ready = next[i] < by_thread_[i].size() && open[by_thread_[i][next[i]]] == 0;
            if (is_ready && (chosen == by_thread_.size() || first.of[i] > first.of[chosen])) chosen = i;
        }
        take(by_thread_[chosen][next[chosen]++]);  // one is ready: all that calls follow comes before them in the trace
        while (!first.changes.empty() && made.size() > first.changes.front()) {
            first.changes.erase(first.changes.begin());
            first.of[chosen] = first.least--;
        }
    }
    return made;
}

}  // namespace sluice::check

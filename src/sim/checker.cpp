// SPDX-License-Identifier: Apache-2.0
#include "sim/checker.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace sluice::sim::detail {
namespace {

constexpr std::size_t most_findings = 100;
constexpr std::size_t most_watched_bytes = std::size_t{64} << 10;

const char* verb(access_mode mode) { return mode == access_mode::read ? "reads" : "writes"; }

std::uint64_t digest(std::uint64_t sum, const std::byte* data, std::size_t bytes) noexcept {
    for (std::size_t i = 0; i + sizeof(sum) <= bytes; i += sizeof(sum)) {
        std::uint64_t word = 0;
        std::memcpy(&word, data + i, sizeof(word));
        sum = (sum ^ word) * 0x9e3779b97f4a7c15;
        sum ^= sum >> 29;
    }
    return sum;
}

part_shadow& shadow_of(block& what, const byte_range& range) {
    const auto at =
        std::ranges::lower_bound(what.parts, range.begin, {}, [](const part_shadow& part) { return part.range.begin; });
    for (auto each = at; each != what.parts.end() && each->range.begin == range.begin; ++each) {
        if (each->range == range) return *each;
    }
    return *what.parts.insert(at, {range, {}, false});
}

// Whether each byte of the range was written through the block or a part.
bool is_written(const block& what, const byte_range& range) {
    std::size_t upto = range.begin;
    for (const part_shadow& part : what.parts) {
        if (part.is_written && part.range.begin <= upto) upto = std::max(upto, part.range.end());
    }
    return what.is_written || upto >= std::min(range.end(), what.requested_bytes);
}

}  // namespace

std::string line_of(const source_location& location) {
    if (location.line() == 0) return {};
    const std::string_view file = location.file_name();
    return std::string(file.substr(file.rfind('/') + 1)) + ":" + std::to_string(location.line());
}

void checker::begin(std::uint64_t seed) {
    seed_ = seed;
    ++schedule_;
    leases_ = 0;
    host_ = {};
    snapshots_.clear();
    host_has_learnt_ = true;
}

std::uint32_t checker::snapshot() {
    if (std::exchange(host_has_learnt_, false)) snapshots_.push_back(host_);
    return static_cast<std::uint32_t>(snapshots_.size() - 1);
}

std::optional<checker::conflict> checker::find_conflict(access_record& with, access_mode mode,
                                                        const vector_clock& known) noexcept {
    if (with.seen_in != schedule_) {
        with.seen_in = schedule_;
        with.written_at = 0;
        with.readers = 0;
    }
    std::optional<conflict> found;
    if (!known.covers(with.writer, with.written_at)) found = {{with.writer, with.written_at}, access_mode::write};
    if (mode == access_mode::read) return found;
    for (std::uint32_t left = with.readers; left != 0; left &= left - 1) {
        const auto reader = static_cast<thread_index>(std::countr_zero(left));
        if (!known.covers(reader, with.read_at[reader])) found = {{reader, with.read_at[reader]}, access_mode::read};
    }
    return found;
}

std::optional<checker::conflict> checker::note(block& what, const byte_range& range, access_mode mode, command_ref who,
                                               const vector_clock& known) {
    if (range.bytes == 0) return {};
    std::optional<conflict> found = find_conflict(what.used, mode, known);
    for (part_shadow& part : what.parts) {
        if (!part.range.overlaps(range)) continue;
        if (const auto with = find_conflict(part.used, mode, known)) found = with;
    }
    access_record& record = range == what.whole() ? what.used : shadow_of(what, range).used;
    record.seen_in = schedule_;
    if (mode == access_mode::read) {
        record.readers |= 1u << who.thread;
        record.read_at[who.thread] = who.when;
        return found;
    }
    record.writer = who.thread;
    record.written_at = who.when;
    record.readers = 0;
    return found;
}

void checker::scramble(block& what) const noexcept { std::memset(what.data(), static_cast<int>(garbage), what.bytes); }

void checker::on_allocate(block& what, std::size_t requested_bytes, bool to_host) {
    what.is_lent = true;
    what.requested_bytes = requested_bytes;
    what.is_written = to_host || requested_bytes == 0;
    what.parts.clear();
    ++what.lease;
    what.number = ++leases_;
    what.numbered_in = schedule_;
    if (!to_host) return;
    what.first_used_in = what.lease;
    host_touches(what, access_mode::write, false);
    scramble(what);
}

void checker::on_adopt(block& what, std::span<block* const> all) {
    what.is_live = what.is_lent = what.is_written = true;
    what.requested_bytes = what.bytes;
    what.parts.clear();
    what.used = {};
    ++what.life;
    what.first_used_in = ++what.lease;
    what.number = ++leases_;
    what.numbered_in = schedule_;
    what.doomed_in_life = 0;
    bool is_known = false;
    for (block* const other : all) {
        if (other->foreign == nullptr || !other->is_live || !other->overlaps(what.data(), what.bytes)) continue;
        if (what.bytes == 0 || other->used.seen_in != schedule_) continue;
        what.used = other->used;
        is_known = true;
    }
    // The program has written it, where nothing better is known.
    if (!is_known) host_touches(what, access_mode::write, false);
}

void checker::freed(block& what) { host_touches(what, access_mode::write, true); }

void checker::touched(block& what, access_mode mode) {
    if (running_ == nullptr) return host_touches(what, mode, false);
    if (const auto with = note(what, what.whole(), mode, running_who_, *running_))
        report(*with, running_who_, mode, what);
}

void checker::mark_unfinished(command_ref who, std::span<const named_block> accesses) noexcept {
    for (const named_block& each : accesses) {
        block& what = *each.what;
        if (!what.is_live || what.life != each.life) continue;  // runs() would have reported it
        if (what.doomed_in_life == what.life && what.doomed_mode == access_mode::write) continue;
        what.doomed_in_life = what.life;
        what.doomed_mode = each.mode;
        what.unfinished_by = who.thread;
        what.doomed_at = who.when;
    }
}

// Whether the host must not access this block any more; if so, reports it.
bool checker::is_in_unfinished_use(const block& what, access_mode mode, bool frees) {
    if (what.doomed_in_life != what.life) return false;
    if (!frees && mode == access_mode::read && what.doomed_mode == access_mode::read) return false;
    actor user = machine_.describe(what.unfinished_by, what.doomed_at);
    const std::string message = std::string("the host ") + (frees ? "frees" : verb(mode)) + " what " + to_string(user) +
                                " may still " + (what.doomed_mode == access_mode::read ? "read" : "write") +
                                ": it was in flight when the device broke down";
    const bool early = !frees && mode == access_mode::read;
    report(frees ? fault::use_after_free : (early ? fault::early_read : fault::race), message, std::move(user), {},
           &what);
    return true;
}

void checker::host_touches(block& what, access_mode mode, bool frees) {
    if (is_in_unfinished_use(what, mode, frees)) return;
    const command_ref host{host_thread, ++host_.upto[host_thread]};
    host_has_learnt_ = true;
    const auto with = note(what, what.whole(), mode, host, host_);
    if (!with) return;
    if (!frees) return report(*with, host, mode, what);
    actor user = machine_.describe(with->earlier.thread, with->earlier.when);
    const std::string message = "memory is freed that " + to_string(user) + " " + verb(with->mode) + ", perhaps later";
    report(fault::use_after_free, message, user, {}, &what);
}

void checker::names(command_ref who, std::span<const named_block> accesses) {
    for (const named_block& each : accesses) {
        const block& what = *each.what;
        if (!what.is_lent) {
            report(fault::use_after_free, machine_.describe(who.thread, who.when), "names storage that was freed",
                   &what);
        } else if (each.mode == access_mode::read && !is_written(what, each.range)) {
            report(fault::uninitialized_read, machine_.describe(who.thread, who.when),
                   "reads memory that nothing has written since it was allocated", &what);
        }
    }
    for (const named_block& each : accesses) {
        if (each.mode == access_mode::write)
            (each.range == each.what->whole() ? each.what->is_written : shadow_of(*each.what, each.range).is_written) =
                true;
    }
}

void checker::check_range(command_ref who, std::span<const named_block> accesses, std::span<block* const> all,
                          const void* from, std::size_t bytes, access_mode mode, bool is_ours) {
    if (bytes == 0) return;
    const block* only_read = nullptr;
    for (const named_block& each : accesses) {
        if (!each.what->contains(each.range, from, bytes)) continue;
        if (mode == access_mode::read || each.mode == access_mode::write) return;
        only_read = each.what;
    }
    const std::string does = verb(mode);
    if (only_read != nullptr) {
        return report(fault::undeclared_access, machine_.describe(who.thread, who.when),
                      "writes what it names as read only", only_read);
    }
    for (block* const each : all) {
        if (!each->overlaps(from, bytes)) continue;
        const bool is_there = each->is_live && each->is_lent;
        return report(is_there ? fault::undeclared_access : fault::use_after_free,
                      machine_.describe(who.thread, who.when),
                      does + (is_there ? " memory that it does not name" : " memory that was freed"), each);
    }
    if (is_ours) {
        report(fault::undeclared_access, machine_.describe(who.thread, who.when),
               does + " memory that was never allocated");
    }
}

void checker::runs(command_ref who, std::span<const named_block> accesses, const vector_clock& known) {
    running_ = &known;
    running_who_ = who;
    for (const named_block& each : accesses) {
        block& what = *each.what;
        if (!what.is_live || what.life != each.life) {
            report(fault::use_after_free, machine_.describe(who.thread, who.when),
                   std::string(verb(each.mode)) + " memory that was freed before it ran", &what);
            continue;
        }
        // The next owner must not use what the last owner left in the block, so it is overwritten.
        if (what.first_used_in < each.lease) {
            what.first_used_in = each.lease;
            scramble(what);
        }
        if (const auto with = note(what, each.range, each.mode, who, known)) report(*with, who, each.mode, what);
    }
}

std::uint64_t checker::contents_only_read(std::span<const named_block> accesses) noexcept {
    std::uint64_t sum = 0;
    for (const named_block& each : accesses) {
        bool is_left_out = each.range.bytes > most_watched_bytes;
        for (const named_block& other : accesses) {
            is_left_out = is_left_out || (other.what == each.what && other.range.overlaps(each.range) &&
                                          other.mode == access_mode::write);
        }
        if (!is_left_out) sum = digest(sum, each.what->data() + each.range.begin, each.range.bytes);
    }
    return sum;
}

void checker::report(const conflict& with, command_ref who, access_mode mode, const block& what) {
    actor first = machine_.describe(with.earlier.thread, with.earlier.when);
    actor second = machine_.describe(who.thread, who.when);
    // The host has opened a value that a command was to write; it makes no difference whether the command ran before or
    // after.
    const bool early = (with.earlier.thread == host_thread && with.mode == access_mode::read) ||
                       (who.thread == host_thread && mode == access_mode::read);
    std::string message = to_string(second) + " " + verb(mode) + " what " + to_string(first) + " " + verb(with.mode) +
                          ", and nothing orders them";
    report(early ? fault::early_read : fault::race, std::move(message), std::move(first), std::move(second), &what);
}

void checker::report(fault what, const actor& who, const std::string& did, const block* memory) {
    report(what, to_string(who) + " " + did, who, {}, memory);
}

void checker::report(fault what, std::string message, actor first, actor second, const block* memory) {
    if (findings_.size() >= most_findings) return;
    std::string storage = memory != nullptr ? name_of(*memory) : "";
    if (!storage.empty()) message += ": " + storage;
    findings_.push_back({what, std::move(message), std::move(first), std::move(second), std::move(storage), seed_});
}

std::string checker::name_of(const block& what) const {
    std::string name = "storage " + std::to_string(what.number);
    if (what.numbered_in != schedule_) name += " of an earlier schedule";
    const char* const kind = what.foreign != nullptr ? " bytes of others, adopted by sim:"
                             : what.is_host          ? " bytes of host memory of sim:"
                                                     : " bytes of sim:";
    return name + " (" + std::to_string(what.requested_bytes) + kind + std::to_string(what.device) + ")";
}

}  // namespace sluice::sim::detail

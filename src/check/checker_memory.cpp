// SPDX-License-Identifier: Apache-2.0
// The checker's part for memory: uses that conflict, frees, and memory that is allocated again.
#include <algorithm>
#include <sstream>
#include <string>

#include "check/checker.hpp"

namespace sluice::check {
namespace {

const char* verb(access_mode mode) {
    switch (mode) {
        case access_mode::read: return "reads";
        case access_mode::write: return "writes";
        case access_mode::writable: return "can write";
        case access_mode::unknown: return "may read or write";
    }
    return "uses";
}

const char* word(place_kind where) {
    switch (where) {
        case place_kind::pinned: return "pinned host memory";
        case place_kind::managed: return "managed memory";
        default: return "device memory";
    }
}

std::string hexadecimal(std::uint64_t at) {
    std::ostringstream text;
    text << "0x" << std::hex << at;
    return text.str();
}

// The bytes of one of them that lie in the other, as far as both are one piece; where an extent is one byte only the
// address is known.
std::string memory_of(const byte_span& a, const byte_span& b, const block* in) {
    const std::uint64_t begin = std::max(a.at, b.at), end = std::min(a.end(), b.end());
    std::string text =
        (end - begin == 1 ? "memory" : std::to_string(end - begin) + " bytes") + " at " + hexadecimal(begin);
    if (in != nullptr) {
        text += ", byte " + std::to_string(begin - in->at) + " of " + std::to_string(in->bytes) + " bytes of " +
                word(in->where);
    }
    return text;
}

std::string stream_name(std::uint64_t id) { return "stream" + std::to_string(id); }

std::string missing_wait(const call_ref& first, const call_ref& second) {
    if (second.is_host) return "cudaStreamSynchronize(" + stream_name(first.stream) + ");  // before the second";
    return "cudaEventRecord(event, " + stream_name(first.stream) + ");  // after the first; cudaStreamWaitEvent(" +
           stream_name(second.stream) + ", event);  // before the second";
}

}  // namespace

// A race is the fault of an event when the stream did wait for it, but it had been recorded again by then.
fault checker::fault_of(const access_record& earlier, const access_record& later) {
    if (later.by.is_host) return later.used.mode == access_mode::read ? fault::early_read : fault::early_write;
    const stream_state& on = streams_.find(later.by.stream);
    const bool is_lost = std::ranges::any_of(on.lost, [&](const lost_record& each) {
        return each.earlier.timeline == earlier.at.timeline && each.earlier.when >= earlier.at.when;
    });
    return is_lost ? fault::event_recorded_again : fault::race;
}

void checker::report(const access_record& earlier, const access_record& later, conflict kind, const block* in,
                     const char* between_what) {
    const bool is_in_graph = *between_what != '\0';
    const fault what = is_in_graph ? fault::race : fault_of(earlier, later);
    std::string message = findings_.words_of(earlier.by) + " " + verb(earlier.used.mode) + " what " +
                          findings_.words_of(later.by) + " " + verb(later.used.mode) + between_what;
    if (!is_in_graph) message += later.by.is_host ? ", perhaps before it is complete" : ", and nothing orders them";
    if (what == fault::event_recorded_again)
        message += ": the event that the stream waited for had been recorded again on another stream";
    const std::string remedy =
        is_in_graph ? "cudaGraphAddDependencies(graph, &first, &second, 1);" : missing_wait(earlier.by, later.by);
    findings_.add(what, kind == conflict::certain, earlier.by, later.by, message,
                  memory_of(earlier.used.where, later.used.where, in), remedy);
}

void checker::report_freed(const block& was, const call_ref& by) {
    findings_.add(fault::use_after_free, true, was.freed, by,
                  findings_.words_of(by) + " uses memory that " + findings_.words_of(was.freed) + " has freed",
                  std::to_string(was.bytes) + " bytes at " + hexadecimal(was.at) + " (" + word(was.where) + ")",
                  "submit the free after the last use");
}

void checker::use(const access& what, moment at, const vector_clock& known, const call_ref& by) {
    if (what.where.end() == what.where.at) return;
    block* const in = memory_.find(what.where.at);
    if (in == nullptr) {
        if (const block* const was = memory_.find_freed(what.where.at)) return report_freed(*was, by);
        ++unknown_uses_;
        return;
    }
    memory_.prepare_use(*in, streams_.host());
    const access_record use{what, at, by};
    in->used.note(use, known, [&](const access_record& earlier, conflict kind) { report(earlier, use, kind, in); });
}

// What is uploaded twice from the same pinned memory, the host has written in between, mostly. The trace does not show
// that, but it shows whether the host had waited for the first upload.
void checker::check_refill(const access& what, const call_ref& by) {
    const block* const in = memory_.find(what.where.at);
    if (in == nullptr || in->where != place_kind::pinned || what.mode != access_mode::read) return;
    in->used.visit_unordered(what.where, streams_.host(), [&](const access_record& earlier) {
        if (earlier.used.mode != access_mode::read) return;
        findings_.add(fault::early_write, false, earlier.by, by,
                      findings_.words_of(by) + " reads again what " + findings_.words_of(earlier.by) +
                          " may still read: if the host has written it in between, it came too early",
                      memory_of(earlier.used.where, what.where, in),
                      "cudaStreamSynchronize(" + stream_name(earlier.by.stream) + ");  // before the host writes it");
    });
}

void checker::allocate(const event& what) {
    const std::string did = words_for(what, call::alloc);
    block made;
    made.at = what.to.at;
    made.bytes = what.to.bytes;
    made.where = what.where;
    made.device = what.device;
    made.allocated = findings_.ref_of(what, did, !what.has_stream);
    if (!what.has_stream) {
        memory_.add(made, [](const block&) {});
        return;
    }
    stream_state& on = streams_.find(what.stream);
    const access whole{what.to, access_mode::write};
    if (on.capture != 0) {
        memory_.add(made, [](const block&) {});
        return capture_work(on, {made.allocated, {whole}, {}});
    }
    const moment at = streams_.submit(on);
    block& added = memory_.add(made, [&](const block& was) {
        on.clock.join(was.freed_upto);  // the pool orders what it hands out again after the free
        was.used.visit_unordered(what.to, on.clock, [&](const access_record& earlier) {
            findings_.add(fault::reuse, true, earlier.by, made.allocated,
                          "memory is allocated again while " + findings_.words_of(earlier.by) + " may still use it",
                          memory_of(earlier.used.where, what.to, &was), missing_wait(earlier.by, was.freed));
        });
    });
    note(at, on.clock, made.allocated);
    added.used.note({whole, at, made.allocated}, on.clock, [](const access_record&, conflict) {});
}

void checker::free(const event& what) {
    block* const freed = memory_.find(what.to.at);
    if (freed == nullptr || freed->at != what.to.at) {
        if (const block* const was = memory_.find_freed(what.to.at); was != nullptr && was->at == what.to.at)
            report_freed(*was, findings_.ref_of(what, words_for(what, call::free), !what.has_stream));
        else
            ++unknown_uses_;
        return;
    }
    if (what.has_stream) return free_in_order(what, *freed);
    // cudaFree waits for the device, and cudaFreeHost for all.
    static_cast<void>(freed->where == place_kind::pinned ? streams_.host_waits_for_all()
                                                         : streams_.host_waits_for_device(freed->device));
    const call_ref by = findings_.ref_of(what, words_for(what, call::free), true);
    freed->used.visit_unordered(
        {freed->at, freed->bytes, 1, freed->bytes}, streams_.host(), [&](const access_record& earlier) {
            findings_.add(fault::use_after_free, true, earlier.by, by,
                          "memory is freed that " + findings_.words_of(earlier.by) + " " + verb(earlier.used.mode) +
                              ", perhaps later",
                          memory_of(earlier.used.where, earlier.used.where, freed), missing_wait(earlier.by, by));
        });
    memory_.remove(freed->at);
}

void checker::free_in_order(const event& what, block& freed) {
    stream_state& on = streams_.find(what.stream);
    const call_ref by = findings_.ref_of(what, words_for(what, call::free));
    const byte_span whole{freed.at, freed.bytes, 1, freed.bytes};
    if (on.capture != 0) return capture_work(on, {by, {{whole, access_mode::write}}, {}});
    const moment at = streams_.submit(on);
    note(at, on.clock, by);
    freed.used.visit_unordered(whole, on.clock, [&](const access_record& earlier) {
        findings_.add(fault::use_after_free, true, earlier.by, by,
                      "memory is freed on stream " + std::to_string(what.stream) + " that " +
                          findings_.words_of(earlier.by) + " " + verb(earlier.used.mode) + ", perhaps later",
                      memory_of(earlier.used.where, earlier.used.where, &freed), missing_wait(earlier.by, by));
    });
    freed.freed = by;
    freed.freed_upto = on.clock;
    memory_.bury(freed);
}

}  // namespace sluice::check

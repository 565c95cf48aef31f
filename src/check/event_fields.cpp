// SPDX-License-Identifier: Apache-2.0
#include "check/event_fields.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "sluice/base/printable.hpp"

namespace sluice::check {
namespace {

template <typename Value>
using words = std::pair<std::string_view, Value>;

// Which of the numbers a call must have.
enum needs : unsigned {
    needs_stream = 1,
    needs_event = 2,
    needs_graph = 4,
    needs_node = 8,
    needs_exec = 16,
    needs_at = 32,
    needs_from = 64,
    needs_to = 128,
    needs_bytes = 256,
    needs_name = 512,
    needs_stack = 1024,
    needs_function = 2048,
};

struct call_rule {
    std::string_view name;
    call what;
    unsigned needed;
};

constexpr call_rule rules[] = {
    {"stream", call::stream, needs_stream},
    {"stream_destroy", call::stream_destroy, needs_stream},
    {"alloc", call::alloc, needs_at | needs_bytes},
    {"free", call::free, needs_at},
    {"copy", call::copy, needs_stream | needs_from | needs_to | needs_bytes},
    {"fill", call::fill, needs_stream | needs_to | needs_bytes},
    {"kernel", call::kernel, needs_stream},
    {"host_func", call::host_func, needs_stream},
    {"record", call::record, needs_event | needs_stream},
    {"wait", call::wait, needs_event | needs_stream},
    {"event_sync", call::event_sync, needs_event},
    {"stream_sync", call::stream_sync, needs_stream},
    {"device_sync", call::device_sync, 0},
    {"event_done", call::event_done, needs_event},
    {"stream_done", call::stream_done, needs_stream},
    {"event_destroy", call::event_destroy, needs_event},
    {"host", call::host, needs_at | needs_bytes},
    {"capture_begin", call::capture_begin, needs_stream},
    {"capture_end", call::capture_end, needs_stream | needs_graph},
    {"graph", call::graph, needs_graph},
    {"node", call::node, needs_graph | needs_node},
    {"edge", call::edge, needs_graph | needs_from | needs_to},
    {"instantiate", call::instantiate, needs_graph | needs_exec},
    {"graph_launch", call::graph_launch, needs_exec | needs_stream},
    {"graph_destroy", call::graph_destroy, needs_graph},
    {"exec_destroy", call::exec_destroy, needs_exec},
    {"function", call::function, needs_function | needs_name},
    {"frames", call::frames, needs_stack},
    {"unseen", call::unseen, needs_name},
};

constexpr words<stream_kind> stream_kinds[] = {
    {"blocking", stream_kind::blocking}, {"non_blocking", stream_kind::non_blocking}, {"legacy", stream_kind::legacy}};
constexpr words<copy_kind> copy_kinds[] = {{"by_address", copy_kind::by_address},
                                           {"to_device", copy_kind::to_device},
                                           {"to_host", copy_kind::to_host},
                                           {"on_device", copy_kind::on_device},
                                           {"on_host", copy_kind::on_host}};
constexpr words<place_kind> places[] = {
    {"device", place_kind::device}, {"pinned", place_kind::pinned}, {"managed", place_kind::managed}};
constexpr words<access_mode> modes[] = {{"read", access_mode::read},
                                        {"write", access_mode::write},
                                        {"writable", access_mode::writable},
                                        {"unknown", access_mode::unknown}};
constexpr words<call> node_kinds[] = {{"kernel", call::kernel},
                                      {"copy", call::copy},
                                      {"fill", call::fill},
                                      {"host_func", call::host_func},
                                      {"empty", call::unseen}};

// Reads keys, and keeps the first thing that is wrong.
class field_reader {
public:
    explicit field_reader(const nlohmann::json& fields) : fields_(fields) {}

    bool number(const char* key, std::uint64_t& to, bool is_needed = false) {
        const auto at = fields_.find(key);
        if (at == fields_.end()) {
            if (is_needed) fail(std::string("has no \"") + key + "\"");
            return false;
        }
        if (!at->is_number_unsigned()) {
            fail(std::string("\"") + key + "\" is no whole number from 0 to 2^64 - 1");
            return false;
        }
        to = at->get<std::uint64_t>();
        return true;
    }
    void flag(const char* key, bool& to) {
        const auto at = fields_.find(key);
        if (at == fields_.end()) return;
        if (!at->is_boolean()) return fail(std::string("\"") + key + "\" is neither true nor false");
        to = at->get<bool>();
    }
    void text(const char* key, std::string& to, bool is_needed = false) {
        const auto at = fields_.find(key);
        if (at == fields_.end()) {
            if (is_needed) fail(std::string("has no \"") + key + "\"");
            return;
        }
        if (!at->is_string()) return fail(std::string("\"") + key + "\" is no text");
        to = at->get<std::string>();
    }
    template <typename Value>
    void word(const char* key, std::span<const words<Value>> known, Value& to) {
        std::string given;
        text(key, given);
        if (given.empty()) return;
        const auto at = std::ranges::find(known, std::string_view(given), &words<Value>::first);
        if (at != known.end()) {
            to = at->second;
            return;
        }
        std::string all;
        for (const auto& each : known) all += (all.empty() ? "" : ", ") + std::string(each.first);
        fail(std::string("\"") + key + "\" is " + in_quotes(given) + ", which is none of " + all);
    }
    // Calls function(element) for each element of a list.
    template <typename Function>
    void list(const char* key, std::size_t longest, const Function& function) {
        const auto at = fields_.find(key);
        if (at == fields_.end()) return;
        if (!at->is_array()) return fail(std::string("\"") + key + "\" is no list");
        if (at->size() > longest)
            return fail(std::string("\"") + key + "\" has more than " + std::to_string(longest) + " elements");
        for (const auto& each : *at) function(each);
    }
    void fail(std::string why) {
        if (wrong.empty()) wrong = std::move(why);
    }

    std::string wrong;

private:
    const nlohmann::json& fields_;
};

constexpr std::size_t most_arguments = 4096;
constexpr std::size_t most_frames = 256;
constexpr std::size_t most_edges = 65'536;

void read_span(field_reader& from, byte_span& to, std::uint64_t bytes, std::uint64_t rows, const char* pitch) {
    to.bytes = bytes;
    to.rows = rows;
    to.pitch = bytes;
    from.number(pitch, to.pitch);
    if (to.rows > 1 && to.pitch < to.bytes) from.fail(std::string("\"") + pitch + "\" is less than \"bytes\"");
    const std::uint64_t most = std::numeric_limits<std::uint64_t>::max() - to.at;
    const bool fits = to.bytes <= most && (to.rows <= 1 || (to.pitch <= most / to.rows && to.pitch * to.rows <= most));
    if (!fits) from.fail("names bytes after the end of the address space");
}

void read_argument(field_reader& from, const nlohmann::json& fields, event& to) {
    if (!fields.is_object()) return from.fail("an element of \"args\" is no object");
    field_reader inner(fields);
    argument made;
    inner.number("at", made.at, true);
    inner.number("bytes", made.bytes);
    inner.word<access_mode>("mode", modes, made.mode);
    if (made.bytes > std::numeric_limits<std::uint64_t>::max() - made.at)
        inner.fail("an element of \"args\" names bytes after the end of the address space");
    if (!inner.wrong.empty()) return from.fail(inner.wrong);
    to.args.push_back(made);
}

void read_memory(field_reader& from, unsigned needed, event& to) {
    std::uint64_t bytes = 0, rows = 1;
    from.number("bytes", bytes, (needed & needs_bytes) != 0);
    from.number("rows", rows);
    from.number("from", to.from.at, (needed & needs_from) != 0);
    if (!from.number("at", to.to.at, (needed & needs_at) != 0)) from.number("to", to.to.at, (needed & needs_to) != 0);
    read_span(from, to.from, bytes, rows, "from_pitch");
    read_span(from, to.to, bytes, rows, "to_pitch");
}

void read_kind(field_reader& from, event& to) {
    switch (to.what) {
        case call::stream: return from.word<stream_kind>("kind", stream_kinds, to.kind);
        case call::copy: return from.word<copy_kind>("kind", copy_kinds, to.direction);
        case call::node:
            from.word<call>("kind", node_kinds, to.node_call);
            return from.word<copy_kind>("direction", copy_kinds, to.direction);
        default: return;
    }
}

unsigned needed_by_node(call what) {
    const auto rule = std::ranges::find(rules, what, &call_rule::what);
    return what == call::unseen ? 0 : rule->needed & ~unsigned{needs_stream};
}

}  // namespace

std::string read_fields(const nlohmann::json& fields, event& to) {
    field_reader from(fields);
    std::string name;
    from.text("op", name, true);
    const auto rule = std::ranges::find(rules, std::string_view(name), &call_rule::name);
    if (!from.wrong.empty()) return from.wrong;
    if (rule == std::end(rules)) return "\"op\" is " + in_quotes(name) + ", which is no call of this format";
    to.what = rule->what;
    read_kind(from, to);
    const unsigned needed = rule->needed | (to.what == call::node ? needed_by_node(to.node_call) : 0);

    from.number("thread", to.thread);
    from.number("stack", to.stack, (needed & needs_stack) != 0);
    from.number("device", to.device);
    to.has_stream = from.number("stream", to.stream, (needed & needs_stream) != 0);
    from.number("function", to.function, (needed & needs_function) != 0);
    from.number("event", to.id, (needed & needs_event) != 0);
    from.number("graph", to.id, (needed & needs_graph) != 0);
    from.number("node", to.other, (needed & needs_node) != 0);
    from.number("exec", to.other, (needed & needs_exec) != 0);
    read_memory(from, needed, to);
    from.flag("sync", to.sync);
    from.flag("failed", to.failed);
    from.text("name", to.name, (needed & needs_name) != 0);
    const bool is_kernel = to.what == call::kernel || to.node_call == call::kernel;
    if (is_kernel && to.name.empty() && to.function == 0) from.fail("has neither \"name\" nor \"function\"");
    from.word<place_kind>("where", places, to.where);
    from.word<access_mode>("mode", modes, to.mode);
    from.list("args", most_arguments, [&](const nlohmann::json& each) { read_argument(from, each, to); });
    from.list("after", most_edges, [&](const nlohmann::json& each) {
        each.is_number_unsigned() ? to.after.push_back(each.get<std::uint64_t>())
                                  : from.fail("an element of \"after\" is no node");
    });
    from.list("frames", most_frames, [&](const nlohmann::json& each) {
        each.is_string() ? to.frames.push_back(each.get<std::string>())
                         : from.fail("an element of \"frames\" is no text");
    });
    return from.wrong;
}

}  // namespace sluice::check

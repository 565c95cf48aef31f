// SPDX-License-Identifier: Apache-2.0
#include "check/inject/ptx_accesses.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <functional>
#include <set>
#include <unordered_map>
#include <utility>

namespace sluice::check {
namespace {

using origins = std::set<std::size_t>;  // parameters

// Without comments, and without lines of debuggers, which end with no semicolon.
std::string plain_text(std::string_view text) {
    std::string made;
    made.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        const std::string_view rest = text.substr(i);
        if (rest.starts_with("//") || rest.starts_with(".loc ") || rest.starts_with(".loc\t") ||
            rest.starts_with(".file")) {
            i = std::min(text.find('\n', i), text.size());
        } else if (rest.starts_with("/*")) {
            const std::size_t end = text.find("*/", i + 2);
            i = end == std::string_view::npos ? text.size() : end + 1;
        } else {
            made += text[i];
            continue;
        }
        made += ' ';
    }
    return made;
}

bool is_in_name(char each) {
    return std::isalnum(static_cast<unsigned char>(each)) != 0 || each == '_' || each == '$' || each == '%' ||
           each == '.';
}

// The names in a text: registers, parameters, opcodes with their dots.
std::vector<std::string_view> names_in(std::string_view text) {
    std::vector<std::string_view> names;
    for (std::size_t i = 0; i < text.size();) {
        if (!is_in_name(text[i])) {
            ++i;
            continue;
        }
        std::size_t end = i;
        while (end < text.size() && is_in_name(text[end])) ++end;
        names.push_back(text.substr(i, end - i));
        i = end;
    }
    return names;
}

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.remove_prefix(1);
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.remove_suffix(1);
    return text;
}

// "@%p1 ld.global.f32 %f1, [%rd1+4]": the opcode, and the operands that are separated by commas outside of brackets.
struct instruction {
    std::string_view opcode;
    std::vector<std::string_view> operands;
};

std::string_view without_labels(std::string_view text) {
    for (;;) {
        text = trimmed(text);
        const std::size_t end =
            text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$%");
        const bool is_label = end != std::string_view::npos && text[end] == ':' && !text.substr(end).starts_with("::");
        if (!is_label) return text;
        text.remove_prefix(end + 1);
    }
}

instruction read_instruction(std::string_view text) {
    text = without_labels(text);
    if (text.starts_with('@')) text = trimmed(text.substr(std::min(text.find_first_of(" \t\n"), text.size())));
    const std::size_t end = std::min(text.find_first_of(" \t\n"), text.size());
    instruction made{text.substr(0, end), {}};
    text.remove_prefix(end);
    int depth = 0;
    std::size_t begin = 0;
    for (std::size_t i = 0; i <= text.size(); ++i) {
        if (i < text.size() && (text[i] == '[' || text[i] == '{' || text[i] == '(')) ++depth;
        if (i < text.size() && (text[i] == ']' || text[i] == '}' || text[i] == ')')) --depth;
        if (i != text.size() && (text[i] != ',' || depth != 0)) continue;
        const std::string_view operand = trimmed(text.substr(begin, i - begin));
        if (!operand.empty()) made.operands.push_back(operand);
        begin = i + 1;
    }
    return made;
}

class kernel_reader {
public:
    kernel_reader(std::vector<std::string_view> parameters, std::string_view body)
        : parameters_(std::move(parameters)), found_(parameters_.size(), ptx_access::none) {
        for (std::size_t begin = 0; begin < body.size();) {
            const std::size_t end = std::min(body.find_first_of(";{}", begin), body.size());
            // Braces of blocks end nothing; those of vectors are in an instruction.
            const std::size_t semicolon = std::min(body.find(';', begin), body.size());
            const std::string_view text = body.substr(begin, semicolon - begin);
            const bool is_block = end < semicolon && trimmed(body.substr(begin, end - begin)).empty();
            if (is_block) {
                begin = end + 1;
                continue;
            }
            instructions_.push_back(read_instruction(text));
            begin = semicolon + 1;
        }
    }

    std::vector<ptx_access> read() {
        for (int round = 0; round < most_rounds; ++round) {
            has_changed_ = false;
            for (const instruction& each : instructions_) follow(each);
            if (has_changed_) continue;
            for (const instruction& each : instructions_) judge(each);
            return found_;
        }
        return std::vector<ptx_access>(parameters_.size(), ptx_access::unknown);
    }

private:
    static constexpr int most_rounds = 64;

    origins origins_of(std::string_view operand) const {
        origins all;
        for (const std::string_view name : names_in(operand)) {
            const auto known = registers_.find(name);
            if (known != registers_.end()) all.insert(known->second.begin(), known->second.end());
            const auto parameter = std::ranges::find(parameters_, name);
            if (parameter != parameters_.end()) all.insert(static_cast<std::size_t>(parameter - parameters_.begin()));
        }
        return all;
    }
    static bool is_load(std::string_view opcode) {
        return (opcode.starts_with("ld.") && !opcode.starts_with("ld.param")) || opcode.starts_with("ldu.");
    }
    static bool is_store(std::string_view opcode) { return opcode.starts_with("st."); }
    static bool is_atomic(std::string_view opcode) { return opcode.starts_with("atom.") || opcode.starts_with("red."); }
    static bool is_directive(std::string_view opcode) {
        static const std::set<std::string_view> known{
            "", ".branchtargets", ".callprototype", ".calltargets", ".local", ".param", ".pragma", ".reg", ".shared"};
        return known.contains(opcode);
    }
    // Those whose results come from their operands alone.
    static bool computes(std::string_view opcode) {
        static const std::set<std::string_view> known{
            "abs",   "add",  "addc",  "and",  "bfe",   "bfi",  "bmsk",  "brev",     "clz",  "copysign", "cos",  "cvt",
            "cvta",  "div",  "dp2a",  "dp4a", "ex2",   "fma",  "fns",   "isspacep", "ld",   "lg2",      "lop3", "mad",
            "mad24", "madc", "max",   "min",  "mov",   "mul",  "mul24", "neg",      "not",  "or",       "popc", "prmt",
            "rcp",   "rem",  "rsqrt", "sad",  "selp",  "set",  "setp",  "shf",      "shfl", "shl",      "shr",  "sin",
            "slct",  "sqrt", "sub",   "subc", "szext", "tanh", "testp", "xor"};
        return known.contains(opcode.substr(0, opcode.find('.')));
    }
    // Those that touch no memory by an operand.
    static bool only_orders(std::string_view opcode) {
        static const std::set<std::string_view> known{
            "activemask",     "bar",   "barrier", "bra",       "brkpt", "elect", "exit", "fence",
            "griddepcontrol", "match", "membar",  "nanosleep", "ret",   "trap",  "vote"};
        return known.contains(opcode.substr(0, opcode.find('.')));
    }

    void follow(const instruction& each) {
        if (is_directive(each.opcode) || is_load(each.opcode) || is_store(each.opcode) || each.operands.empty()) return;
        origins all;
        for (std::size_t i = 1; i < each.operands.size(); ++i) all.merge(origins_of(each.operands[i]));
        if (all.empty()) return;
        for (const std::string_view name : names_in(each.operands.front())) {
            origins& known = registers_[std::string(name)];
            const std::size_t before = known.size();
            known.insert(all.begin(), all.end());
            has_changed_ |= known.size() != before;
        }
    }

    void mark(std::string_view operand, ptx_access how) {
        for (const std::size_t each : origins_of(operand)) found_[each] = std::max(found_[each], how);
    }
    void judge(const instruction& each) {
        if (is_directive(each.opcode) || only_orders(each.opcode)) return;
        for (std::size_t i = 0; i < each.operands.size(); ++i) {
            const std::string_view operand = each.operands[i];
            const bool is_address = operand.starts_with('[');
            if (is_load(each.opcode)) {
                if (is_address) mark(operand, ptx_access::read);
            } else if (is_store(each.opcode) || is_atomic(each.opcode)) {
                const bool is_result = i == 0 && !is_address;
                if (!is_result) mark(operand, is_address ? ptx_access::written : ptx_access::unknown);
            } else if (!computes(each.opcode) ||
                       (!is_address && std::ranges::find(parameters_, operand) != parameters_.end())) {
                mark(operand, ptx_access::unknown);  // with the address of a parameter, any of its parts may be read
            }
        }
    }

    struct text_hash {
        using is_transparent = void;
        std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>()(text); }
    };

    std::vector<std::string_view> parameters_;
    std::vector<ptx_access> found_;
    std::vector<instruction> instructions_;
    std::unordered_map<std::string, origins, text_hash, std::equal_to<>> registers_;
    bool has_changed_ = false;
};

// ".param .u64 .ptr .align 1 scale_param_0": the name is the last one, before the extent of an array.
std::vector<std::string_view> parameters_in(std::string_view list) {
    std::vector<std::string_view> all;
    for (std::size_t begin = 0; begin < list.size();) {
        const std::size_t end = std::min(list.find(',', begin), list.size());
        std::string_view one = list.substr(begin, end - begin);
        one = one.substr(0, one.find('['));
        const std::vector<std::string_view> names = names_in(one);
        if (!names.empty()) all.push_back(names.back());
        begin = end + 1;
    }
    return all;
}

// After the brace that opens at `begin`; npos where it does not close.
std::size_t end_of_block(std::string_view text, std::size_t begin) {
    int depth = 0;
    for (std::size_t i = begin; i < text.size(); ++i) {
        if (text[i] == '{') ++depth;
        if (text[i] == '}' && --depth == 0) return i + 1;
    }
    return std::string_view::npos;
}

}  // namespace

std::map<std::string, std::vector<ptx_access>, std::less<>> accesses_in_ptx(std::string_view text) {
    const std::string plain = plain_text(text);
    const std::string_view all = plain;
    std::map<std::string, std::vector<ptx_access>, std::less<>> made;
    constexpr std::string_view entry = ".entry";
    for (std::size_t at = all.find(entry); at != std::string_view::npos; at = all.find(entry, at)) {
        at += entry.size();
        const std::size_t open = all.find_first_of("({;", at);
        if (open == std::string_view::npos) break;
        const std::vector<std::string_view> name = names_in(all.substr(at, open - at));
        const std::size_t close = all[open] == '(' ? all.find(')', open) : open;
        const std::size_t body = all.find_first_of("{;", std::min(close, all.size()));
        if (name.size() != 1 || body == std::string_view::npos) continue;
        if (all[body] == ';') continue;  // a declaration
        const std::size_t end = end_of_block(all, body);
        if (end == std::string_view::npos) break;
        const auto parameters =
            close == open ? std::vector<std::string_view>() : parameters_in(all.substr(open + 1, close - open - 1));
        made[std::string(name.front())] = kernel_reader(parameters, all.substr(body + 1, end - body - 2)).read();
        at = end;
    }
    return made;
}

bool is_ptx(const char* image) {
    if (image == nullptr) return false;
    std::size_t at = 0;
    while (at < 4096 && std::isspace(static_cast<unsigned char>(image[at])) != 0) ++at;
    if (at == 4096) return false;
    const auto begins = [&](std::string_view with) {
        for (std::size_t i = 0; i < with.size(); ++i)
            if (image[at + i] != with[i]) return false;  // a text ends with a zero, which differs
        return true;
    };
    return begins("//") || begins(".version");
}

}  // namespace sluice::check

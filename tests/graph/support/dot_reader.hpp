// SPDX-License-Identifier: Apache-2.0
// Reads the DOT text that the library writes and refuses what Graphviz would refuse. Supports a small part of DOT,
// strictly.
#pragma once

#include <cctype>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::testing {

using dot_attributes = std::map<std::string, std::string>;

struct dot_edge {
    std::string from, to;
    dot_attributes attributes;
};

struct dot_graph {
    std::map<std::string, dot_attributes> nodes;
    std::vector<dot_edge> edges;
    std::vector<std::string> clusters;
};

class dot_reader {
public:
    // Throws std::runtime_error for any other text.
    static dot_graph read(std::string_view text) {
        dot_reader reader(text);
        reader.expect("digraph");
        static_cast<void>(reader.word());
        reader.body();
        reader.skip_space();
        if (reader.at_ != text.size()) reader.fail("text after the graph");
        for (const dot_edge& each : reader.made_.edges) {
            if (!reader.made_.nodes.contains(each.from) || !reader.made_.nodes.contains(each.to))
                reader.fail("an edge of a missing node");
        }
        return std::move(reader.made_);
    }

private:
    explicit dot_reader(std::string_view text) : text_(text) {}

    [[noreturn]] void fail(const std::string& why) const {
        throw std::runtime_error("at byte " + std::to_string(at_) + ": " + why);
    }
    void skip_space() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    }
    char peek() {
        skip_space();
        if (at_ == text_.size()) fail("the text ends too early");
        return text_[at_];
    }
    bool take(std::string_view wanted) {
        skip_space();
        if (text_.substr(at_, wanted.size()) != wanted) return false;
        at_ += wanted.size();
        return true;
    }
    void expect(std::string_view wanted) {
        if (!take(wanted)) fail("expected '" + std::string(wanted) + "'");
    }
    std::string word() {
        skip_space();
        const std::size_t begin = at_;
        while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_'))
            ++at_;
        if (begin == at_) fail("expected a name");
        return std::string(text_.substr(begin, at_ - begin));
    }
    // A word, or a string as Graphviz would show it.
    std::string value() {
        if (!take("\"")) return word();
        std::string text;
        while (true) {
            if (at_ == text_.size()) fail("a string without end");
            const char c = text_[at_++];
            if (c == '"') return text;
            if (static_cast<unsigned char>(c) < 0x20) fail("a control character");
            if (c == '\\') {
                const char escaped = at_ == text_.size() ? '\0' : text_[at_++];
                if (escaped != 'n' && escaped != '"' && escaped != '\\') fail("an escape that Graphviz would expand");
                text += escaped == 'n' ? '\n' : escaped;
            } else if (c == '&') {
                if (text_.substr(at_, 4) != "amp;") fail("a bare '&'");
                at_ += 4;
                text += '&';
            } else {
                text += c;
            }
        }
    }
    dot_attributes attributes() {
        dot_attributes all;
        if (!take("[")) return all;
        do {
            const std::string name = word();
            expect("=");
            if (!all.emplace(name, value()).second) fail("an attribute twice");
        } while (take(","));
        expect("]");
        return all;
    }

    void body() {
        expect("{");
        while (!take("}")) {
            if (take(";")) continue;
            const std::string first = word();
            if (first == "subgraph") {
                made_.clusters.push_back(word());
                body();
            } else if (take("=")) {
                static_cast<void>(value());
            } else if (take("->")) {
                const std::string to = word();
                made_.edges.push_back({first, to, attributes()});
            } else if (const dot_attributes all = attributes(); first != "node" && first != "edge") {
                if (!made_.nodes.emplace(first, all).second) fail("a node twice");
            }
        }
    }

    std::string_view text_;
    std::size_t at_ = 0;
    dot_graph made_;
};

}  // namespace sluice::testing

// SPDX-License-Identifier: Apache-2.0
// xml_reader: reads the XML that the library writes, a small part of XML, and refuses text that is not well-formed.
#pragma once

#include <cctype>
#include <cstddef>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::testing {

struct xml_element {
    std::string name;
    std::map<std::string, std::string> attributes;
    std::string text;  // of this element only, concatenated
    std::vector<xml_element> children;

    std::string attribute(const std::string& key) const {
        const auto found = attributes.find(key);
        return found == attributes.end() ? std::string() : found->second;
    }
    double number(const std::string& key) const { return std::stod(attributes.at(key)); }

    // Whether the element has this CSS class.
    bool is(std::string_view css_class) const {
        const std::string all = " " + attribute("class") + " ";
        return all.find(" " + std::string(css_class) + " ") != std::string::npos;
    }

    // This element and its descendants, in the document's order, for which `wanted` returns true.
    template <class Predicate>
    std::vector<const xml_element*> all(Predicate wanted) const {
        std::vector<const xml_element*> found;
        collect(wanted, found);
        return found;
    }
    std::vector<const xml_element*> of_class(std::string_view css_class) const {
        return all([&](const xml_element& each) { return each.is(css_class); });
    }
    const xml_element& child(std::string_view of_name) const {
        for (const xml_element& each : children) {
            if (each.name == of_name) return each;
        }
        throw std::runtime_error("<" + name + "> has no <" + std::string(of_name) + ">");
    }

private:
    template <class Predicate>
    void collect(Predicate& wanted, std::vector<const xml_element*>& found) const {
        if (wanted(*this)) found.push_back(this);
        for (const xml_element& each : children) each.collect(wanted, found);
    }
};

class xml_reader {
public:
    // Throws std::runtime_error unless the text is one well-formed element, surrounded only by white space.
    static xml_element read(std::string_view text) {
        xml_reader reader(text);
        reader.skip_space();
        xml_element root = reader.element();
        reader.skip_space();
        if (reader.at_ != text.size()) reader.fail("text after the root element");
        return root;
    }

private:
    explicit xml_reader(std::string_view text) : text_(text) {}

    [[noreturn]] void fail(const std::string& why) const {
        throw std::runtime_error("at byte " + std::to_string(at_) + ": " + why);
    }
    char peek() const {
        if (at_ == text_.size()) fail("the text ends too early");
        return text_[at_];
    }
    bool take(std::string_view wanted) {
        if (text_.substr(at_, wanted.size()) != wanted) return false;
        at_ += wanted.size();
        return true;
    }
    void expect(std::string_view wanted) {
        if (!take(wanted)) fail("expected '" + std::string(wanted) + "'");
    }
    void skip_space() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
    }
    std::string word() {
        const std::size_t begin = at_;
        while (std::isalnum(static_cast<unsigned char>(peek())) != 0 || peek() == '-') ++at_;
        if (begin == at_) fail("expected a name");
        return std::string(text_.substr(begin, at_ - begin));
    }

    // One character of content or of an attribute; a reference gives the character that it names.
    char character() {
        const char c = peek();
        if (c == '<') fail("a bare '<'");
        if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') fail("a control character");
        if (c != '&') return ++at_, c;
        if (take("&amp;")) return '&';
        if (take("&lt;")) return '<';
        if (take("&gt;")) return '>';
        if (take("&quot;")) return '"';
        if (take("&#13;")) return '\r';
        fail("a bare '&'");
    }

    xml_element element() {
        xml_element result;
        expect("<");
        result.name = word();
        while (true) {
            const std::size_t before = at_;
            skip_space();
            if (take("/>")) return result;
            if (take(">")) break;
            if (at_ == before) fail("expected a space before an attribute");
            std::string key = word();
            std::string value;
            expect("=\"");
            while (peek() != '"') value += character();
            ++at_;
            if (!result.attributes.emplace(std::move(key), std::move(value)).second) fail("an attribute twice");
        }
        while (!take("</")) {
            if (peek() == '<') {
                result.children.push_back(element());
            } else {
                result.text += character();
            }
        }
        if (word() != result.name) fail("the end tag does not match " + result.name);
        expect(">");
        return result;
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

}  // namespace sluice::testing

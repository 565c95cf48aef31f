// Text from untrusted files, made fit for an error message.
#pragma once

#include <string>
#include <string_view>

namespace sluice::nn {

// At most `longest` characters of `text`, with control characters replaced. Bytes above 127 are kept: they may be
// UTF-8.
inline std::string printable(std::string_view text, std::size_t longest = 80) {
    std::string result(text.substr(0, longest));
    for (char& c : result) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 0x20 || byte == 0x7f) c = '?';
    }
    if (text.size() > longest) result += "...";
    return result;
}

// The same in quotes: 'net.0.weight'.
inline std::string in_quotes(std::string_view text) { return "'" + printable(text) + "'"; }

}  // namespace sluice::nn

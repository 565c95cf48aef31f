// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "sluice/base/file_error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/io/file_descriptor.hpp"
#include "sluice/serve/access_list.hpp"

namespace sluice::serve {
namespace {

constexpr std::size_t shortest_token = 16;
constexpr std::size_t longest_name_of_client = 64;
constexpr std::size_t least_memory = 64 << 10;
constexpr std::size_t most_bytes = 4 << 20;

// One line of the file.
class client_line {
public:
    client_line(const std::filesystem::path& file, std::size_t number, std::string_view text)
        : file_(file), number_(number), rest_(text) {}

    // False: the line has no token.
    bool read() {
        const std::string_view token = next();
        if (token.empty() || token.front() == '#') return false;
        if (token.size() < shortest_token || !std::ranges::all_of(token, [](char c) { return c > ' ' && c < 127; }))
            refuse("a token has at least " + std::to_string(shortest_token) + " characters of ASCII, and no spaces");
        its_.tokens.emplace_back(token);
        std::size_t place = 2;
        for (std::string_view word = next(); !word.empty(); word = next()) read_option(word, place++);
        return true;
    }

    const std::string& token() const { return its_.tokens.front(); }

    // Into `clients`.
    void add(std::vector<known_client>& clients, std::map<std::string, std::size_t>& places) && {
        its_.is_named = !its_.name.empty();
        if (!its_.is_named) its_.name = "line " + std::to_string(number_);
        const auto [found, is_new] = places.emplace(its_.name, clients.size());
        if (is_new) return clients.push_back(std::move(its_));
        if (read_.size() > 1)
            refuse("the client " + in_quotes(its_.name) +
                   " is described by a line before this one, so this one has a "
                   "token and name= only");
        clients[found->second].tokens.push_back(std::move(its_.tokens.front()));
    }

    [[noreturn]] void refuse(const std::string& why) const {
        throw file_error(file_, file_error::no_offset, "line " + std::to_string(number_), why);
    }

private:
    static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

    std::string_view next() {
        const auto begin = std::ranges::find_if_not(rest_, is_space);
        const auto end = std::find_if(begin, rest_.end(), is_space);
        const std::string_view word(begin, end);
        rest_ = std::string_view(end, rest_.end());
        return word;
    }

    // A word that is not understood may be a token, so it is not shown.
    void read_option(std::string_view word, std::size_t place) {
        const std::size_t sign = std::min(word.find('='), word.size());
        const std::string_view key = word.substr(0, sign);
        const std::string_view value = word.substr(std::min(sign + 1, word.size()));
        const auto is = [&](std::string_view name) { return key == name && sign != word.size(); };
        if (!(is("name") || is("roles") || is("rate") || is("memory") || is("sequences")))
            refuse("after a token come name=, roles=, rate=, memory= and sequences=; word " + std::to_string(place) +
                   " of the line is none of these");
        if (!read_.insert(std::string(key)).second) refuse(std::string(key) + " is there twice");
        if (is("name")) read_name(value);
        if (is("roles")) read_roles(value);
        if (is("rate")) read_number(key, value, its_.requests_per_second, 1, 1'000'000'000);
        if (is("memory")) read_number(key, value, its_.memory_bytes, least_memory, std::size_t{1} << 44);
        if (is("sequences")) read_number(key, value, its_.sequences, 1, std::size_t{1} << 32);
    }

    void read_name(std::string_view value) {
        const bool is_right = !value.empty() && value.size() <= longest_name_of_client &&
                              std::ranges::all_of(value, [](char c) { return c > ' ' && c < 127; });
        if (!is_right) refuse("a name has 1 to 64 characters of ASCII, and no spaces");
        its_.name = value;
    }

    void read_roles(std::string_view value) {
        its_.roles = {};
        while (true) {
            const std::size_t end = std::min(value.find(','), value.size());
            const std::string_view word = value.substr(0, end);
            std::size_t i = 0;
            while (i < client_roles && word != name_of(static_cast<client_role>(i))) ++i;
            if (i == client_roles) refuse("roles are infer, observe and load; this is " + in_quotes(word));
            its_.roles[i] = true;
            if (end == value.size()) return;
            value.remove_prefix(end + 1);
        }
    }

    void read_number(std::string_view key, std::string_view value, std::size_t& to, std::size_t least,
                     std::size_t most) const {
        const auto [end, failure] = std::from_chars(value.data(), value.data() + value.size(), to);
        if (failure != std::errc() || end != value.data() + value.size() || to < least || to > most)
            refuse(std::string(key) + " is a number from " + std::to_string(least) + " to " + std::to_string(most) +
                   "; this is " + in_quotes(value));
    }

    const std::filesystem::path& file_;
    const std::size_t number_;
    std::string_view rest_;
    known_client its_;
    std::set<std::string> read_;  // its keys
};

[[noreturn]] void refuse_file(const std::filesystem::path& file, const std::string& why, errc code = errc::bad_file) {
    throw file_error(file, file_error::no_offset, "", why, code);
}

// Who may write the file may give tokens to anybody. It is looked at when it is open, so that no process can exchange
// it before it is read. A pipe has no such bits.
std::string read_unless_others_write(const std::filesystem::path& file, bool waits) {
    const io::file_descriptor opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | (waits ? 0 : O_NONBLOCK)));
    struct stat state{};
    if (opened.get() == -1 || ::fstat(opened.get(), &state) != 0)
        refuse_file(file, "cannot be read: " + std::generic_category().message(errno), errc::io_failed);
    if (!waits && !S_ISREG(state.st_mode)) refuse_file(file, "is no regular file");
    if (S_ISREG(state.st_mode) && (state.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        std::array<char, 8> mode{};
        std::snprintf(mode.data(), mode.size(), "%03o", static_cast<unsigned>(state.st_mode & 0777));
        refuse_file(file,
                    std::string("a file of tokens must be writable by its owner only; the mode of this file is ") +
                        mode.data() + " (chmod 600, or 640 for a group that may read it)");
    }
    std::string text;
    std::array<char, 16384> part{};
    while (true) {
        const ssize_t got = ::read(opened.get(), part.data(), part.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) refuse_file(file, "cannot be read: " + std::generic_category().message(errno), errc::io_failed);
        if (got == 0) return text;
        text.append(part.data(), static_cast<std::size_t>(got));
        if (text.size() > most_bytes) refuse_file(file, "the file is too long for tokens");
    }
}

}  // namespace

std::vector<known_client> read_clients(const std::filesystem::path& file, bool waits) {
    const std::string text = read_unless_others_write(file, waits);
    std::vector<known_client> clients;
    std::map<std::string, std::size_t> places;  // of the clients, by their names
    std::set<std::string> tokens;
    std::string_view rest = text;
    for (std::size_t number = 1; !rest.empty(); ++number) {
        const std::size_t end = std::min(rest.find('\n'), rest.size());
        client_line line(file, number, rest.substr(0, end));
        if (line.read()) {
            if (!tokens.insert(line.token()).second) line.refuse("this token is there twice");
            std::move(line).add(clients, places);
        }
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    if (clients.empty()) refuse_file(file, "the file has no tokens");
    return clients;
}

}  // namespace sluice::serve

// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/access_list.hpp"

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>

#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::serve {
namespace {

constexpr std::int64_t second_ns = 1'000'000'000;

// What has no limit of its own counts for the whole alone.
std::shared_ptr<request_budget> part_of(const known_client& its, const std::shared_ptr<request_budget>& whole) {
    if (its.memory_bytes == 0 && its.sequences == 0) return whole;
    return std::make_shared<request_budget>(its.memory_bytes != 0 ? its.memory_bytes : whole->most_bytes(),
                                            its.sequences != 0 ? its.sequences : SIZE_MAX, whole);
}

// Sequences outlive front ends and their lists.
std::uint32_t next_number() noexcept {
    static std::atomic<std::uint32_t> last{0};
    return ++last;
}

bool is_token(std::string_view authorization, const std::string& token) noexcept {
    unsigned difference = token.size() == authorization.size() ? 0 : 1;
    for (std::size_t i = 0; i < authorization.size(); ++i)
        difference |= static_cast<unsigned char>(authorization[i] ^ token[i % token.size()]);
    return difference == 0;
}

[[noreturn]] void refuse_client(const known_client& its, const std::string& why) {
    throw error(errc::invalid_argument, "the client " + in_quotes(its.name) + " " + why);
}

// In a label of Prometheus.
std::string label_text(std::string_view name) {
    std::string made;
    for (const char each : printable(name)) {
        if (each == '"' || each == '\\') made += '\\';
        made += each;
    }
    return made;
}

}  // namespace

const char* name_of(client_role its) noexcept {
    switch (its) {
        case client_role::infer: return "infer";
        case client_role::observe: return "observe";
        case client_role::load: return "load";
    }
    return "";
}

access_list::client::client(const known_client& its, const std::shared_ptr<request_budget>& whole, std::uint32_t number)
    : its_(its), number_(number != 0 ? number : next_number()), budget_(part_of(its, whole)) {}

std::string access_list::client::role_names() const {
    std::string names;
    for (std::size_t i = 0; i < client_roles; ++i) {
        if (!its_.roles[i]) continue;
        if (!names.empty()) names += ", ";
        names += name_of(static_cast<client_role>(i));
    }
    return names;
}

// The generic cell rate algorithm (ITU-T I.371): each request stands for a time, and they may stand for a second ahead.
bool access_list::client::take_request(clock::time_point now) noexcept {
    if (its_.requests_per_second == 0) return true;
    const std::int64_t its_ns = second_ns / static_cast<std::int64_t>(its_.requests_per_second);
    const std::int64_t now_ns = std::chrono::nanoseconds(now.time_since_epoch()).count();
    std::int64_t before = paid_until_ns_;
    while (true) {
        const std::int64_t after = std::max(before, now_ns) + its_ns;
        if (after - now_ns > second_ns) return false;
        if (paid_until_ns_.compare_exchange_weak(before, after)) return true;
    }
}

// What is forbidden counts for the rate, too.
access_list::client::admission access_list::client::admit(std::optional<client_role> what,
                                                          clock::time_point now) noexcept {
    admission made = admission::accepted;
    if (!take_request(now))
        made = admission::too_many;
    else if (what && !may(*what))
        made = admission::forbidden;
    ++counts_[static_cast<std::size_t>(made)];
    return made;
}

access_list::access_list(const std::vector<known_client>& clients, std::shared_ptr<request_budget> whole)
    : whole_(std::move(whole)) {
    if (!whole_) throw error(errc::invalid_argument, "the clients of a server have a part of its memory for requests");
    replace(clients);
}

void access_list::replace(const std::vector<known_client>& clients) {
    require_clients(clients);
    const std::unique_lock lock(mutex_);
    std::vector<client*> current;
    std::vector<token_of> tokens;
    const std::size_t before = clients_.size();
    const auto who_was = [&](const known_client& its) -> client* {
        if (its.is_named) {
            const auto found = std::ranges::find_if(
                current_, [&](const client* each) { return each->its_.is_named && each->name() == its.name; });
            return found == current_.end() ? nullptr : *found;
        }
        const auto found = std::ranges::find_if(tokens_, [&](const token_of& each) {
            return !each.whose->its_.is_named && std::ranges::find(its.tokens, each.token) != its.tokens.end();
        });
        return found == tokens_.end() ? nullptr : found->whose;
    };
    try {
        for (const known_client& each : clients) {
            client* const same = who_was(each);
            client* its = same != nullptr && same->has_terms_of(each) ? same : nullptr;
            if (its == nullptr) its = &clients_.emplace_back(each, whole_, same != nullptr ? same->number() : 0);
            current.push_back(its);
            for (const std::string& token : each.tokens) tokens.push_back({token, its});
        }
    } catch (...) {
        while (clients_.size() > before) clients_.pop_back();
        throw;
    }
    current_ = std::move(current);
    tokens_ = std::move(tokens);
}

bool access_list::client::has_terms_of(const known_client& other) const {
    known_client as_other = its_;
    as_other.tokens = other.tokens;
    return as_other == other;
}

void access_list::require_clients(const std::vector<known_client>& clients) {
    if (clients.empty()) throw error(errc::invalid_argument, "a list of clients has at least one");
    std::set<std::string_view> names, tokens;
    for (const known_client& each : clients) {
        if (each.name.empty()) throw error(errc::invalid_argument, "a client of a server has a name");
        if (!names.insert(each.name).second) refuse_client(each, "is there twice");
        if (each.tokens.empty()) refuse_client(each, "has no token");
        if (each.requests_per_second > second_ns)
            refuse_client(each, "has a limit of more than 10^9 requests a second");
        for (const std::string& token : each.tokens) {
            if (token.empty()) refuse_client(each, "has a token that is empty");
            if (!tokens.insert(token).second) refuse_client(each, "has a token that is there twice");
        }
    }
}

access_list::client* access_list::find(std::string_view authorization) const noexcept {
    constexpr std::string_view scheme = "bearer ";
    if (authorization.size() <= scheme.size()) return nullptr;
    const auto fits = [](char its, char wanted) { return its == wanted || (wanted != ' ' && its == wanted - 32); };
    if (!std::ranges::equal(authorization.substr(0, scheme.size()), scheme, fits)) return nullptr;
    authorization.remove_prefix(scheme.size());
    client* found = nullptr;
    const std::shared_lock lock(mutex_);
    for (const token_of& each : tokens_)
        if (is_token(authorization, each.token)) found = each.whose;
    return found;
}

std::string access_list::metrics() const {
    std::string text =
        "# HELP sluice_client_requests_total Requests with a token, by its client and what became of them.\n"
        "# TYPE sluice_client_requests_total counter\n";
    const std::shared_lock lock(mutex_);
    for (const client* const its : current_) {
        const client& each = *its;
        using admission = client::admission;
        for (const auto& [result, of] :
             {std::pair("accepted", admission::accepted), std::pair("too_many", admission::too_many),
              std::pair("forbidden", admission::forbidden)}) {
            text += "sluice_client_requests_total{client=\"" + label_text(each.name()) + "\",result=\"" + result +
                    "\"} " + std::to_string(each.count(of)) + "\n";
        }
    }
    return text;
}

}  // namespace sluice::serve

// SPDX-License-Identifier: Apache-2.0
// access_list: the clients that a server knows by their tokens, what each may do, and how much of it.
//
//     const auto budget = std::make_shared<serve::request_budget>(std::size_t{1} << 30);
//     const auto clients = std::make_shared<serve::access_list>(serve::read_clients("tokens"), budget);
//     serve::http_front http(models, {.budget = budget, .clients = clients});
//
// Thread safety: an access_list and its clients may be used on any thread.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/serve/request_budget.hpp"

namespace sluice::serve {

// What a token is for. Any token may ask what models there are, and whether they are ready.
enum class client_role : unsigned char {
    infer,    // requests to models, and the shared memory for them
    observe,  // metrics, statistics, timelines, the list of regions of shared memory
    load,     // loads and unloads of models
};
inline constexpr std::size_t client_roles = 3;  // how many there are

// "infer"; costs O(1)
const char* name_of(client_role its) noexcept;

// A client, as its owner describes it. Zero is no limit.
struct known_client {
    std::string name;                                        // for logs and metrics; no secret
    std::vector<std::string> tokens;                         // each is right; several while they are exchanged
    std::array<bool, client_roles> roles{true, true, true};  // by the value of client_role
    std::size_t requests_per_second = 0;                     // on average; a second's may come at once
    std::size_t memory_bytes = 0;  // for its requests and sequences at a time, of the memory for all requests
    std::size_t sequences = 0;     // that are live at a time, of all models
    bool is_named = true;          // false: the name is only for people, and the client is who has its tokens

    bool operator==(const known_client&) const = default;
};

// From a file with a client a line: TOKEN [name=robot] [roles=infer,observe,load] [rate=100] [memory=1000000]
// [sequences=10]. A token has at least 16 characters of ASCII without spaces, a name at most 64, and memory is at least
// 65536. Without a name the client is "line N". A line with the name of a line before it, and nothing else, is one more
// token of that client. Empty lines, and those that begin with #, are passed over. Throws file_error: for a line that
// is none of these, for a file without tokens, one that cannot be read, and one that others than its owner may write.
// Texts of errors have no tokens. A pipe blocks until its writer ends; without `waits` only a regular file is read.
// Costs O(bytes of the file).
std::vector<known_client> read_clients(const std::filesystem::path& file, bool waits = true);

class access_list {
public:
    // One of them, as front ends use it.
    class client {
    public:
        using clock = std::chrono::steady_clock;  // of its rate

        // `its` is kept. `number`: of the client whose place it takes; 0: a new one.
        client(const known_client& its, const std::shared_ptr<request_budget>& whole, std::uint32_t number = 0);
        client(const client&) = delete;  // requests know its address
        client& operator=(const client&) = delete;

        const std::string& name() const noexcept { return its_.name; }  // as it was described
        std::uint32_t number() const noexcept { return number_; }       // from 1; it stays when its terms change
        // Whether its tokens are for this; costs O(1).
        bool may(client_role what) const noexcept { return its_.roles[static_cast<std::size_t>(what)]; }
        std::string role_names() const;  // "infer, load"; costs the text
        // The limit: zero is none. Costs O(1).
        std::size_t requests_per_second() const noexcept { return its_.requests_per_second; }
        // What becomes of a request.
        enum class admission : unsigned char {
            accepted,   // it is served
            too_many,   // it is beyond the client's rate
            forbidden,  // the client's tokens are not for it
        };
        // Counts a request of this role, or without one of any. It is one too many for now, or its tokens are not for
        // this. Costs O(1).
        admission admit(std::optional<client_role> what, clock::time_point now = clock::now()) noexcept;
        // What its requests and sequences count for: its part of the whole. Costs O(1).
        const std::shared_ptr<request_budget>& budget() const noexcept { return budget_; }

        // Requests so far with this result. Costs O(1).
        std::uint64_t count(admission of) const noexcept { return counts_[static_cast<std::size_t>(of)]; }

    private:
        friend class access_list;
        bool has_terms_of(const known_client& other) const;  // all but the tokens
        bool take_request(clock::time_point now) noexcept;

        const known_client its_;
        const std::uint32_t number_;
        const std::shared_ptr<request_budget> budget_;
        std::atomic<std::int64_t> paid_until_ns_{0};  // of the clock: the time that its requests so far stand for
        std::array<std::atomic<std::uint64_t>, 3> counts_{};  // by the admission
    };

    // Each client's memory is a part of `whole`, which front ends take as their budget. Throws error
    // (invalid_argument) where there is no client, or no whole, or two have one name or one token, and for a client
    // without a name or without a token that is not empty. Costs O(clients * tokens).
    access_list(const std::vector<known_client>& clients, std::shared_ptr<request_budget> whole);
    access_list(const access_list&) = delete;  // requests know the addresses of its clients
    access_list& operator=(const access_list&) = delete;

    // From now on these are the clients; throws what the constructor throws, and nothing changes. Who is there with the
    // same roles and limits stays as it is; with others, its sequences stay, and what is running counts as before. One
    // without a name is who had one of its tokens without a name. Costs O(clients * tokens), and the memory of clients
    // that change, as long as this lives.
    void replace(const std::vector<known_client>& clients);

    // The client one of whose tokens the value of a field Authorization has, "Bearer TOKEN"; null: none. The time that
    // this takes says nothing about how much of a token was right. Costs O(tokens).
    client* find(std::string_view authorization) const noexcept;
    const std::shared_ptr<request_budget>& whole() const noexcept { return whole_; }  // as it was given
    // For Prometheus: requests of each client, those that were too many, those that it may not make. Costs O(clients).
    std::string metrics() const;

private:
    static void require_clients(const std::vector<known_client>& clients);

    struct token_of {
        std::string token;
        client* whose;
    };

    std::shared_ptr<request_budget> whole_;
    mutable std::shared_mutex mutex_;  // of what follows
    std::deque<client> clients_;       // also those of before: requests know their addresses
    std::vector<client*> current_;     // of these
    std::vector<token_of> tokens_;     // of the current ones
};

}  // namespace sluice::serve

// SPDX-License-Identifier: Apache-2.0
#include "serve/front_clients.hpp"

#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/serve/refusal.hpp"

namespace sluice::serve {
namespace {

constexpr std::size_t longest_name = 200;

}  // namespace

std::shared_ptr<request_budget> budget_of_front(const std::shared_ptr<request_budget>& asked,
                                                const access_list* clients, std::size_t bytes) {
    if (clients == nullptr) return asked ? asked : std::make_shared<request_budget>(bytes);
    if (asked && asked != clients->whole()) {
        throw error(errc::invalid_argument,
                    "the memory of the clients is a part of another budget than that of the front end");
    }
    return clients->whole();
}

void admit(access_list::client& its, std::optional<client_role> what) {
    using admission = access_list::client::admission;
    switch (its.admit(what)) {
        case admission::accepted: return;
        case admission::too_many:
            throw refusal(refusal_kind::queue_full, "the client " + in_quotes(its.name()) + " sends more than " +
                                                        std::to_string(its.requests_per_second()) +
                                                        " requests a second");
        case admission::forbidden:
            throw refusal(refusal_kind::forbidden, "this token is not for the role " +
                                                       std::string(name_of(what.value_or(client_role::infer))) +
                                                       "; its roles are " + its.role_names());
    }
}

void log_change(const log_sink& log, std::string_view who, std::string_view model, bool loads,
                std::string_view why) noexcept {
    if (!log) return;
    try {
        const std::string name = printable(model, longest_name);
        const std::string what = std::string(loads ? "load" : "unload") + " of '" + name + "', asked by ";
        log({why.empty() ? log_level::info : log_level::warn, loads ? "load_asked" : "unload_asked",
             what + std::string(who) + (why.empty() ? ": done" : ": " + printable(why, 500)), name});
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): no memory, and the answer is what matters
    }
}

std::string words_of(const access_list::client* its) {
    return its != nullptr ? "the client " + in_quotes(its->name()) : "a client without a token";
}

}  // namespace sluice::serve

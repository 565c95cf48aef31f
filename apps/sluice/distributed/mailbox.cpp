// SPDX-License-Identifier: Apache-2.0
#include "mailbox.hpp"

#include <span>
#include <utility>

namespace sluice::app {

void mailbox::post(int to, int kind, std::string text) {
    static_cast<void>(has_sent_all());  // releases those that were sent
    outgoing& made = outgoing_.emplace_back(outgoing{std::move(text), std::nullopt});
    made.in_flight = world_.send(to, kind, std::as_bytes(std::span(made.text)));
}

std::optional<letter> mailbox::next() {
    if (incoming_.empty()) {
        const auto arrived = world_.probe();
        if (!arrived) return std::nullopt;
        incoming& made = incoming_.emplace_back(
            incoming{{arrived->from, arrived->tag, std::string(arrived->bytes, '\0')}, std::nullopt});
        made.in_flight = world_.receive(*arrived, std::as_writable_bytes(std::span(made.what.text)));
    }
    if (!incoming_.front().in_flight->is_done()) return std::nullopt;
    letter arrived = std::move(incoming_.front().what);
    incoming_.clear();
    return arrived;
}

bool mailbox::has_sent_all() {
    outgoing_.remove_if([](outgoing& each) { return each.in_flight->is_done(); });
    return outgoing_.empty();
}

}  // namespace sluice::app

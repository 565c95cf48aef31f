// SPDX-License-Identifier: Apache-2.0
// Texts between ranks. Those of one rank to another arrive in the order in which they were posted.
//
// Thread safety: none, as its session. No call blocks.
#pragma once

#include <list>
#include <optional>
#include <string>

#include "mpi.hpp"

namespace sluice::app {

struct letter {
    int from;
    int kind;
    std::string text;
};

class mailbox {
public:
    explicit mailbox(const mpi::session& world) : world_(world) {}

    void post(int to, int kind, std::string text);
    // The next that has arrived whole.
    std::optional<letter> next();
    // Until then it must not be destroyed, unless the process ends.
    bool has_sent_all();

private:
    // In lists of nodes: MPI has the texts' addresses.
    struct outgoing {
        std::string text;
        std::optional<mpi::request> in_flight;
    };
    struct incoming {
        letter what;
        std::optional<mpi::request> in_flight;
    };

    const mpi::session& world_;
    std::list<outgoing> outgoing_;
    std::list<incoming> incoming_;  // at most one
};

}  // namespace sluice::app

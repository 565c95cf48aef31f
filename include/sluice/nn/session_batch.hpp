// SPDX-License-Identifier: Apache-2.0
// session_batch: many sessions of one network step together, as one run of the network.
//
//     nn::session_batch together(speech);
//     together.step(std::array{nn::session_step{&first, a}, nn::session_step{&second, b}});
//
// The inputs and the states of the sessions become the rows of a batch; after the run each session has its rows of the
// outputs and of the next states. This is so only where the network computes each row by itself, which its graph must
// prove (row_independence.hpp). Each session has what a step of its own gives, but for the order in which sums are
// added.
//
// Thread safety: one thread at a time, and no other thread is in one of the sessions meanwhile. It holds memory for one
// batch.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "sluice/nn/host_view.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/nn/session.hpp"

namespace sluice::nn {

namespace detail {
class session_batch_core;
}

// A session, and the inputs of its step.
struct session_step {
    session* of;                         // not null; it must live until the step has ended
    std::span<const input_view> inputs;  // as for session::step
};

class session_batch {
public:
    // The state is that of sessions with these options. Throws what session throws; errc::unsupported, with the node,
    // where the rows are not proven to be independent, and on other devices than CPUs. Costs O(nodes).
    explicit session_batch(network of, session_options options = {});
    session_batch(session_batch&&) noexcept;
    session_batch& operator=(session_batch&&) noexcept;
    ~session_batch();

    // Steps all these sessions, before it returns. A session's inputs have as many rows as its state; inputs of all
    // have the same lengths in the other dimensions. Throws, with the session's number here, errc::invalid_argument for
    // a session of another network or with another state, one that is here twice, and one that another thread is in;
    // errc::shape_mismatch for lengths that do not fit together; what session::step throws. After an error all states
    // are what they were. Costs a run of the network, and copies of the inputs, the states and the outputs.
    void step(std::span<const session_step> steps);

private:
    std::unique_ptr<detail::session_batch_core> core_;
};

}  // namespace sluice::nn

// SPDX-License-Identifier: Apache-2.0
// Adaptor for std::execution: an operation as a sender, and an executor or a pool of streams as a scheduler.
//
//     auto state = execution::connect(as_sender(forward(x), pool), my_receiver{});
//     execution::start(state);             // submits
//
// Optional: no other header includes it. The words are std::execution's where the standard library has it, else those
// of sluice/senders/vocabulary.hpp. See docs/plugs.md.
#pragma once

#include "sluice/senders/as_sender.hpp"
#include "sluice/senders/scheduler.hpp"
#include "sluice/senders/vocabulary.hpp"

// SPDX-License-Identifier: Apache-2.0
// work: what one call that submits work reads and writes, and whether it returns only when that is done.
#pragma once

#include <vector>

#include "check/blocks.hpp"
#include "check/event.hpp"
#include "check/shadow.hpp"

namespace sluice::check {

struct work {
    std::vector<access> uses;
    bool host_waits_before = false;  // for what the stream had before the call
    bool host_waits_after = false;   // for the work itself
};

// By the rules of CUDA's "API synchronization behavior": a copy between the host's pageable memory and the device is
// staged. `what` is copy, fill, kernel or host_func.
work work_of(const event& from, call what, blocks& memory);

}  // namespace sluice::check

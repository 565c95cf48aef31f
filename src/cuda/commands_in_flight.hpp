// SPDX-License-Identifier: Apache-2.0
// The latest commands of a GPU's stream, so that the report of a fault can name its possible causes. CUDA reports that
// a kernel failed, but not which one.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <array>
#include <cstddef>
#include <mutex>
#include <string_view>
#include <vector>

#include "sluice/base/detail/spin_lock.hpp"
#include "sluice/runtime/command.hpp"
#include "sluice/runtime/ticket.hpp"

namespace sluice::cuda {

struct command_in_flight {
    ticket number = 0;
    std::string_view name;
    source_location location = {};
    bool runs_kernels = false;  // which may fault; our own copies and fills do not
};

class commands_in_flight {
public:
    void note(ticket number, const command_info& info, bool runs_kernels) noexcept {
        const std::lock_guard lock(guard_);
        last_[number % last_.size()] = {number, info.name, info.location, runs_kernels};
    }

    // The remembered commands with numbers above `passed`, oldest first.
    std::vector<command_in_flight> after(ticket passed, ticket issued) const {
        std::vector<command_in_flight> found;
        const ticket oldest = issued > last_.size() ? issued - last_.size() : 0;
        const std::lock_guard lock(guard_);
        for (ticket number = std::max(passed, oldest) + 1; number <= issued; ++number) {
            const command_in_flight& each = last_[number % last_.size()];
            if (each.number == number) found.push_back(each);
        }
        return found;
    }

private:
    mutable detail::spin_lock guard_;
    std::array<command_in_flight, 64> last_;
};

}  // namespace sluice::cuda

// SPDX-License-Identifier: Apache-2.0
// The implementation of a process_group: this process's rank, through the library of its GPU.
#pragma once

#include "sluice/devices/process_group.hpp"

namespace sluice::detail {

class process_rank {
public:
    process_rank() = default;
    process_rank(const process_rank&) = delete;  // a group owns it, commands point to it
    process_rank& operator=(const process_rank&) = delete;
    virtual ~process_rank() = default;

    virtual bool is_complete() = 0;
    virtual void abandon() noexcept = 0;
    // Enqueues the collective on the stream, in place. Blocks until the library has accepted it; throws errc::canceled,
    // device_error.
    virtual void run(const collective_form& form, void* data, const native_stream& on) = 0;

    // Empty when the library is not installed.
    static std::string hardware(device& gpu);
    // Throw errc::unsupported when the library is not installed.
    static process_group::invitation invite();
    static std::unique_ptr<process_rank> join(device& gpu, const process_group::invitation& to,
                                              const process_group::place& here);
};

}  // namespace sluice::detail

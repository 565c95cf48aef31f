// SPDX-License-Identifier: Apache-2.0
// helping: a thread that waits for a CPU device may run the commands that it waits for itself, instead of waking a
// worker and sleeping.
#pragma once

namespace sluice::detail {

// While this exists, a wait of the calling thread may run commands. For waits that users request, which hold no lock of
// the library. It has no effect on a thread with a duty (thread_duty), which already runs commands or resumes waiters.
class helping_scope {
public:
    helping_scope() noexcept;
    helping_scope(const helping_scope&) = delete;  // belongs to the thread
    helping_scope& operator=(const helping_scope&) = delete;
    ~helping_scope();

private:
    const bool before_;
};

// Whether a wait of the calling thread may run commands.
bool may_help() noexcept;

}  // namespace sluice::detail

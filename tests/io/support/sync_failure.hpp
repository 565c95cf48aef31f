// SPDX-License-Identifier: Apache-2.0
// sync_failure: while one lives, fsync fails. An executable with sync_failure.cpp has an fsync of its own in place of
// the system's.
#pragma once

namespace sluice::io::testing {

enum class synced { files, directories };

// One at a time. The fsync of what it names fails with `cause`, a value of errno.
class sync_failure {
public:
    sync_failure(synced what, int cause) noexcept;
    sync_failure(const sync_failure&) = delete;  // the state is the process's
    sync_failure& operator=(const sync_failure&) = delete;
    ~sync_failure();
};

}  // namespace sluice::io::testing

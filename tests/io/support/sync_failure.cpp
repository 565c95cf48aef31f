// SPDX-License-Identifier: Apache-2.0
#include "io/support/sync_failure.hpp"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace sluice::io::testing {
namespace {

struct planned_failure {
    bool is_on = false;
    synced what = synced::files;
    int cause = 0;
};
planned_failure planned;

bool is_failing(int descriptor) {
    struct stat about;
    if (!planned.is_on || ::fstat(descriptor, &about) != 0) return false;
    return S_ISDIR(about.st_mode) == (planned.what == synced::directories);
}

}  // namespace

sync_failure::sync_failure(synced what, int cause) noexcept { planned = {true, what, cause}; }
sync_failure::~sync_failure() { planned.is_on = false; }

}  // namespace sluice::io::testing

extern "C" int fsync(int descriptor) {
    namespace here = sluice::io::testing;
    if (here::is_failing(descriptor)) {
        errno = here::planned.cause;
        return -1;
    }
    return static_cast<int>(::syscall(SYS_fsync, descriptor));
}

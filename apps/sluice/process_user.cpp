// SPDX-License-Identifier: Apache-2.0
#include "process_user.hpp"

#include <cerrno>
#include <system_error>
#include <vector>

#include <grp.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::app {
namespace {

struct user {
    std::string name;
    uid_t number;
    gid_t group;
};

user find(const std::string& name) {
    std::vector<char> text(1024);
    passwd entry{};
    passwd* found = nullptr;
    int status = ERANGE;
    while ((status = ::getpwnam_r(name.c_str(), &entry, text.data(), text.size(), &found)) == ERANGE)
        text.resize(2 * text.size());
    if (status != 0)
        throw std::system_error(status, std::generic_category(), "looking for the user " + in_quotes(name));
    if (found == nullptr) throw error(errc::invalid_argument, "--user: there is no user " + in_quotes(name));
    return {name, entry.pw_uid, entry.pw_gid};
}

void require(bool is_done, const char* what) {
    if (!is_done) throw std::system_error(errno, std::generic_category(), std::string("--user: ") + what);
}

}  // namespace

void become_user(const std::string& name) {
    const user wanted = find(name);
    if (wanted.number == 0) {
        throw error(errc::invalid_argument, "--user: " + in_quotes(name) +
                                                " has the rights of root, which is what the " +
                                                "option takes away; leave it out to run as root");
    }
    require(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "prctl(PR_SET_NO_NEW_PRIVS)");
    if (::getuid() == wanted.number && ::geteuid() == wanted.number) return;
    if (::geteuid() != 0) {
        throw error(errc::invalid_argument, "--user " + name + ": only root can become another user; start sluice as " +
                                                "root, or as that user");
    }
    require(::initgroups(wanted.name.c_str(), wanted.group) == 0, "initgroups");
    require(::setresgid(wanted.group, wanted.group, wanted.group) == 0, "setresgid");
    require(::setresuid(wanted.number, wanted.number, wanted.number) == 0, "setresuid");
    if (::setresuid(-1, 0, -1) == 0) throw error(errc::unsupported, "--user: the process could become root again");
}

}  // namespace sluice::app

// SPDX-License-Identifier: Apache-2.0
#include "apps/support/ranks.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "io/support/temporary_directory.hpp"

namespace sluice::app::testing {
namespace {

// What Open MPI needs to start more ranks than there are cores, as root, in containers; others do not know these.
void prepare_mpi() {
    for (const char* each :
         {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe"}) {
        ::setenv(each, "1", 1);
    }
    ::setenv("OMPI_MCA_hwloc_base_binding_policy", "none", 1);
    ::setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 1);
    // Jobs that start at the same moment, as tests do, get in each other's way in one folder.
    static const io::testing::temporary_directory sessions;
    ::setenv("OMPI_MCA_orte_tmpdir_base", sessions.path().c_str(), 1);
}

void append(command_line& to, int size, const command_line& rank) {
    if (to.words.size() > 1) to.words.push_back(":");
    to.words.insert(to.words.end(), {SLUICE_MPIEXEC_NUMPROC_FLAG, std::to_string(size)});
    to.words.insert(to.words.end(), rank.words.begin(), rank.words.end());
}

command_line mpirun(int size, const command_line& rank) {
    prepare_mpi();
    command_line command{{SLUICE_MPIEXEC}};
    append(command, size, rank);
    return command;
}

command_line mpirun(const std::vector<command_line>& commands) {
    prepare_mpi();
    command_line command{{SLUICE_MPIEXEC}};
    for (const command_line& each : commands) append(command, 1, each);
    return command;
}

std::vector<command_line> rank_commands(const std::vector<rank_arguments>& arguments) {
    std::vector<command_line> commands;
    for (const rank_arguments& each : arguments) commands.push_back(rank_command(each));
    return commands;
}

pid_t parent_of(const std::filesystem::path& process) {
    std::ifstream stat(process / "stat");
    std::string line;
    std::getline(stat, line);
    std::istringstream behind_name(line.substr(std::min(line.size(), line.rfind(')') + 1)));
    std::string state;
    pid_t parent = 0;
    behind_name >> state >> parent;
    return parent;
}

// Whether the starter has given this process that rank.
bool is_rank(const std::filesystem::path& process, int rank) {
    std::ifstream environment(process / "environ");
    std::string each;
    while (std::getline(environment, each, '\0')) {
        for (const char* name : {"OMPI_COMM_WORLD_RANK=", "PMI_RANK="}) {
            if (each == name + std::to_string(rank)) return true;
        }
    }
    return false;
}

}  // namespace

command_line rank_command(const rank_arguments& arguments) {
    rank_arguments all{"run", "--distributed"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return tool_command(all);
}

ranks::ranks(int size, const rank_arguments& arguments) : mpirun_(mpirun(size, rank_command(arguments))) {}

ranks::ranks(const std::vector<rank_arguments>& arguments) : mpirun_(mpirun(rank_commands(arguments))) {}

ranks::ranks(const std::vector<command_line>& commands) : mpirun_(mpirun(commands)) {}

outcome run_alone(const rank_arguments& arguments) {
    prepare_mpi();
    return tool_process(rank_command(arguments)).wait();
}

void ranks::send_to(int rank, int signal) const {
    for (const auto& each : std::filesystem::directory_iterator("/proc")) {
        if (parent_of(each.path()) != mpirun_.id() || !is_rank(each.path(), rank)) continue;
        ::kill(static_cast<pid_t>(std::stol(each.path().filename().string())), signal);
        return;
    }
    throw std::runtime_error("rank " + std::to_string(rank) + " was not found");
}

outcome ranks::wait() {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!has_ended()) {
        if (std::chrono::steady_clock::now() > limit) {
            ADD_FAILURE() << "the job does not end";
            send(SIGTERM);  // mpirun then kills the ranks
            break;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return mpirun_.wait();
}

}  // namespace sluice::app::testing

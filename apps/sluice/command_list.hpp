// SPDX-License-Identifier: Apache-2.0
// The commands and options of the tool as plain data. What describes them elsewhere is made from it: the scripts for
// shells that complete words, and the manual page.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace sluice::app {

struct described_option {
    std::vector<std::string> names;  // "-h", "--help"; of an argument without dashes its name: "model"
    std::string value;               // "OUT.npy"; empty: the option takes no value
    std::string help;
    std::string otherwise;  // the default; may be empty
    bool is_argument = false;
    bool is_required = false;
    std::vector<std::string> words = {};  // that the value can be; empty: anything
    bool is_file = false;                 // the value is the name of a file
};

struct described_command {
    std::string name, help;
    std::vector<described_option> options;
};

struct command_list {
    described_command tool;  // its options hold for all commands
    std::vector<described_command> commands;
};

command_list describe_commands(const CLI::App& app);

}  // namespace sluice::app

// SPDX-License-Identifier: Apache-2.0
// The words of a command line that has another program in it: `sluice check --may ./program --its-option`.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace sluice::app {

// The words after the tool's name, in reverse, as CLI11 takes them. Where the command is `with_program`, "--" comes
// before the first word that is no option of it: what follows is the program's. `program` gets those words, and CLI11
// one word in their place: it would take "[a,b]" apart.
std::vector<std::string> reversed_words(int argc, const char* const* argv, const CLI::App& with_program,
                                        std::vector<std::string>& program);

}  // namespace sluice::app

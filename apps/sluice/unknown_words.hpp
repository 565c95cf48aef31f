// SPDX-License-Identifier: Apache-2.0
// What is said about commands, options and arguments that the command line does not know.
#pragma once

#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace sluice::app {

// Both throw error (errc::invalid_argument) with one sentence. Of an unknown command: the nearest one and all that
// there are.
[[noreturn]] void refuse_command(const CLI::App& app, const std::string& word);
// In our words where a word is unknown, else in those of the parser.
[[noreturn]] void refuse_words(const CLI::App& app, const CLI::ParseError& error);

}  // namespace sluice::app

// SPDX-License-Identifier: Apache-2.0
#include "program_words.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>

namespace sluice::app {
namespace {

bool is_option(const std::string& word) { return word.size() > 1 && word.front() == '-'; }

bool takes_value(const std::string& word, const CLI::App& of) {
    const CLI::Option* const known = of.get_option_no_throw(word);
    return known != nullptr && known->get_items_expected_max() != 0;
}

}  // namespace

std::vector<std::string> reversed_words(int argc, const char* const* argv, const CLI::App& with_program,
                                        std::vector<std::string>& program) {
    std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
    auto at = std::ranges::find_if_not(words, is_option);
    if (at != words.end() && *at == with_program.get_name()) {
        for (++at; at != words.end() && is_option(*at) && *at != "--"; ++at) {
            if (takes_value(*at, with_program) && at + 1 != words.end()) ++at;
        }
        if (at != words.end() && *at != "--") at = words.insert(at, "--");
        if (at != words.end() && ++at != words.end()) {
            program.assign(at, words.end());
            words.erase(at, words.end());
            words.emplace_back("PROGRAM");
        }
    }
    std::ranges::reverse(words);
    return words;
}

}  // namespace sluice::app

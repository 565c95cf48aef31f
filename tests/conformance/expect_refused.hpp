// SPDX-License-Identifier: Apache-2.0
// Expects that a call throws sluice::error with this code, and that its message contains all of these words.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <initializer_list>
#include <string>
#include <string_view>

#include "sluice/base/error.hpp"

namespace sluice::conformance {

template <typename Function>
void expect_refused(errc code, std::initializer_list<std::string> words, Function&& call) {
    try {
        call();
        ADD_FAILURE() << "nothing was thrown";
    } catch (const error& refusal) {
        EXPECT_EQ(refusal.code(), code) << refusal.what();
        for (const std::string& word : words) {
            EXPECT_NE(std::string_view(refusal.what()).find(word), std::string_view::npos)
                << "'" << word << "' is not in: " << refusal.what();
        }
    }
}

// The same for a call written within a few lines of this one: the message must name the file and such a line. (Not the
// exact line, because compilers differ in the line that they assign to an expression.)
template <typename Function>
void expect_refused_here(errc code, std::initializer_list<std::string> words, Function&& call,
                         sluice::source_location here = sluice::source_location::current()) {
    expect_refused(code, words, [&] {
        try {
            call();
        } catch (const error& refusal) {
            const auto location = refusal.location();
            EXPECT_STREQ(location.file_name(), here.file_name()) << refusal.what();
            EXPECT_LE(std::abs(static_cast<int>(location.line()) - static_cast<int>(here.line())), 3) << refusal.what();
            const std::string asked = ":" + std::to_string(location.line()) + ")";
            EXPECT_NE(std::string_view(refusal.what()).find(asked), std::string_view::npos) << refusal.what();
            throw;
        }
    });
}

}  // namespace sluice::conformance

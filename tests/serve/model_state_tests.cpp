// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/model_state.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "sluice/base/error.hpp"

namespace sluice::serve::model_state_tests {
namespace {

using enum model_state;
constexpr model_state all[] = {unloaded, loading, ready, failed, unloading};

TEST(model_states, change_only_as_the_table_says) {
    const std::set<std::pair<model_state, model_state>> allowed{
        {unloaded, loading}, {loading, ready},  {loading, failed},   {loading, unloaded},  {ready, failed},
        {ready, unloading},  {failed, loading}, {failed, unloading}, {unloading, unloaded}};
    for (const model_state from : all)
        for (const model_state to : all)
            EXPECT_EQ(may_become(from, to), allowed.contains({from, to})) << name_of(from) << " to " << name_of(to);
}

TEST(model_states, have_the_words_of_the_index) {
    EXPECT_EQ(index_word(unloaded), "UNAVAILABLE");
    EXPECT_EQ(index_word(failed), "UNAVAILABLE");
    EXPECT_EQ(index_word(loading), "LOADING");
    EXPECT_EQ(index_word(ready), "READY");
    EXPECT_EQ(index_word(unloading), "UNLOADING");
    std::set<std::string_view> names;
    for (const model_state each : all) names.insert(name_of(each));
    EXPECT_EQ(names.size(), std::size(all));
}

TEST(model_states, a_change_that_is_not_allowed_changes_nothing) {
    version_state its;
    EXPECT_TRUE(its.is(unloaded));
    EXPECT_THROW(its.become(ready), error);
    its.become(loading);
    its.become(failed, "no file");
    try {
        its.become(ready);
        FAIL() << "became ready";
    } catch (const error& why) {
        EXPECT_THAT(why.what(), ::testing::HasSubstr("a version of a model that is failed cannot become ready"));
    }
    EXPECT_EQ(its.now(), failed);
    EXPECT_EQ(its.reason(), "no file");
}

TEST(model_states, a_reason_is_of_one_state) {
    version_state its;
    its.become(loading);
    its.become(failed, "no file");
    its.become(loading);
    EXPECT_EQ(its.reason(), "");
    its.become(ready);
    its.note("loading it again has failed");
    EXPECT_EQ(its.now(), ready);
    EXPECT_EQ(its.reason(), "loading it again has failed");
    its.become(unloading);
    EXPECT_EQ(its.reason(), "");
}

}  // namespace
}  // namespace sluice::serve::model_state_tests

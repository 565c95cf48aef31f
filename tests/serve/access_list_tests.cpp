// SPDX-License-Identifier: Apache-2.0
// The clients of a server: their file, what each may do, and its limits.
#include "sluice/serve/access_list.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "io/support/temporary_directory.hpp"
#include "serve/support/known_clients.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/file_error.hpp"

namespace sluice::serve::access_list_tests {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::list_of;
using admission = access_list::client::admission;

std::vector<known_client> read(const std::string& text, mode_t mode = 0600) {
    const io::testing::temporary_directory folder;
    const std::filesystem::path file = folder / "tokens";
    std::ofstream(file) << text;
    ::chmod(file.c_str(), mode);
    return read_clients(file);
}

std::string why_not(const std::string& text, mode_t mode = 0600) {
    try {
        read(text, mode);
    } catch (const file_error& failure) {
        return failure.what();
    }
    return "it is read";
}

TEST(access_list, a_line_without_more_is_a_client_who_may_do_everything) {
    const auto clients = read("# ours\r\n\r\na-token-of-16-or-more\r\nanother-token-of-16");
    ASSERT_EQ(clients.size(), 2U);
    EXPECT_EQ(clients[0].name, "line 3");
    EXPECT_THAT(clients[0].tokens, ElementsAre("a-token-of-16-or-more"));
    EXPECT_THAT(clients[0].roles, ElementsAre(true, true, true));
    EXPECT_EQ(clients[0].requests_per_second, 0U);
    EXPECT_EQ(clients[1].name, "line 4");
}

TEST(access_list, a_line_says_name_roles_and_limits) {
    const auto clients = read(
        "robot-token-of-16 name=robot\troles=infer rate=100 memory=1000000 sequences=10\n"
        "monitor-token-of-16 name=monitor roles=observe,load\n"
        "second-token-of-16 name=robot\n");
    ASSERT_EQ(clients.size(), 2U);
    EXPECT_EQ(clients[0].name, "robot");
    EXPECT_THAT(clients[0].tokens, ElementsAre("robot-token-of-16", "second-token-of-16"));
    EXPECT_THAT(clients[0].roles, ElementsAre(true, false, false));
    EXPECT_EQ(clients[0].requests_per_second, 100U);
    EXPECT_EQ(clients[0].memory_bytes, 1'000'000U);
    EXPECT_EQ(clients[0].sequences, 10U);
    EXPECT_THAT(clients[1].roles, ElementsAre(false, true, true));
}

TEST(access_list, a_wrong_line_is_named_and_its_token_is_not) {
    const std::string token = "a-secret-of-16-or-more";
    for (const auto& [rest, why] : std::vector<std::pair<std::string, std::string>>{
             {" roles=", "roles are infer, observe and load; this is ''"},
             {" roles=infer,", "roles are infer, observe and load; this is ''"},
             {" roles=admin", "this is 'admin'"},
             {" rate=0", "rate is a number from 1 to "},
             {" rate=1.5", "this is '1.5'"},
             {" rate=1 rate=2", "rate is there twice"},
             {" memory=1000", "memory is a number from 65536 to "},
             {" memory=99999999999999999999", "memory is a number from 65536 to "},
             {" sequences=-1", "sequences is a number from 1 to "},
             {" another-secret-of-16", "word 2 of the line is none of these"},
             {" name=a secret=3", "word 3 of the line is none of these"},
             {" name=\xc3\xa4", "a name has 1 to 64 characters of ASCII"},
             {" name=", "a name has 1 to 64 characters of ASCII"},
             {" name=" + std::string(65, 'a'), "a name has 1 to 64 characters of ASCII"},
             {" name=a\nother-token-of-16 name=a rate=3", "line 2"},
             {" name=a\n" + token + " name=b", "this token is there twice"}}) {
        const std::string got = why_not(token + rest);
        EXPECT_THAT(got, HasSubstr(why));
        EXPECT_THAT(got, HasSubstr("line "));
        EXPECT_THAT(got, ::testing::Not(HasSubstr("secret")));
    }
    EXPECT_THAT(why_not("too-short"), HasSubstr("at least 16 characters"));
    EXPECT_THAT(why_not("# nothing\n\n"), HasSubstr("the file has no tokens"));
}

TEST(access_list, a_file_that_others_may_write_is_refused) {
    const std::string text = "a-token-of-16-or-more\n";
    EXPECT_EQ(why_not(text, 0600), "it is read");
    EXPECT_EQ(why_not(text, 0644), "it is read");
    for (const mode_t mode : {0620, 0602, 0666})
        EXPECT_THAT(why_not(text, mode), HasSubstr("writable by its owner only; the mode of this file is 6"));
    EXPECT_THROW(read_clients("/no/such/file"), file_error);
    EXPECT_THROW(read_clients("/proc"), file_error);
}

TEST(access_list, clients_that_cannot_be_told_apart_are_refused) {
    const auto refused = [](const std::vector<known_client>& clients) { EXPECT_THROW(list_of(clients), error); };
    refused({});
    refused({{.name = "", .tokens = {"a"}}});
    refused({{.name = "a", .tokens = {}}});
    refused({{.name = "a", .tokens = {""}}});
    refused({{.name = "a", .tokens = {"x"}}, {.name = "a", .tokens = {"y"}}});
    refused({{.name = "a", .tokens = {"x"}}, {.name = "b", .tokens = {"x"}}});
    EXPECT_THROW(access_list({{.name = "a", .tokens = {"x"}}}, nullptr), error);
}

TEST(access_list, a_token_leads_to_its_client) {
    const auto list = list_of({{.name = "a", .tokens = {"first", "second"}}, {.name = "b", .tokens = {"third"}}});
    EXPECT_EQ(list->find("Bearer first")->name(), "a");
    EXPECT_EQ(list->find("bEARER second")->name(), "a");
    EXPECT_EQ(list->find("Bearer third")->name(), "b");
    for (const char* const wrong : {"", "Bearer", "Bearer ", "Bearer firs", "Bearer firstfirst", "Basic first", "first",
                                    "Bearer  first", "Bearer first "})
        EXPECT_EQ(list->find(wrong), nullptr) << wrong;
}

TEST(access_list, clients_change_while_requests_come) {
    const auto budget = std::make_shared<request_budget>(1 << 20);
    known_client a{.name = "a", .tokens = {"one"}, .requests_per_second = 1000}, b{.name = "b", .tokens = {"two"}};
    access_list list({a, b}, budget);
    access_list::client* const first = list.find("Bearer one");
    access_list::client* const second = list.find("Bearer two");
    a.tokens = {"one", "three"};
    list.replace({a, b});
    EXPECT_EQ(list.find("Bearer three"), first);  // the same client
    b.sequences = 3;
    b.tokens = {"four"};
    list.replace({a, b});
    EXPECT_EQ(list.find("Bearer two"), nullptr);
    access_list::client* const changed = list.find("Bearer four");
    ASSERT_NE(changed, nullptr);
    EXPECT_NE(changed, second);
    EXPECT_EQ(changed->number(), second->number());  // its sequences stay
    EXPECT_EQ(changed->budget()->most_sequences(), 3U);
    EXPECT_EQ(second->name(), "b");  // requests that run know it
    EXPECT_THROW(list.replace({}), error);
    EXPECT_THROW(list.replace({a, a}), error);
    EXPECT_EQ(list.find("Bearer four"), changed);
    list.replace({b});
    EXPECT_EQ(list.find("Bearer one"), nullptr);
    EXPECT_EQ(list.metrics().find("client=\"a\""), std::string::npos);
    list.replace({a, b});
    EXPECT_NE(list.find("Bearer one")->number(), first->number());  // another one of that name

    std::atomic<bool> ends{false};
    std::thread asks([&] {
        while (!ends) {
            access_list::client* const found = list.find("Bearer four");
            ASSERT_NE(found, nullptr);
            found->admit(client_role::infer);
        }
    });
    for (int i = 0; i < 200; ++i) {
        b.sequences = static_cast<std::size_t>(1 + i);
        list.replace({a, b});
        EXPECT_FALSE(list.metrics().empty());
    }
    ends = true;
    asks.join();
}

TEST(access_list, a_client_without_a_name_is_who_has_its_token) {
    const auto budget = std::make_shared<request_budget>(1 << 20);
    const std::string one = "token-one-of-16-or-more", two = "token-two-of-16-or-more", three = "token-three-of-16";
    access_list list(read(one + "\n" + two + " rate=1\n"), budget);
    access_list::client* const second = list.find("Bearer " + two);
    const std::uint32_t number_of_first = list.find("Bearer " + one)->number();
    EXPECT_TRUE(second->admit({}) == admission::accepted);
    list.replace(read(two + " rate=1\n" + three + "\n"));  // the first line has gone
    EXPECT_EQ(list.find("Bearer " + one), nullptr);
    EXPECT_EQ(list.find("Bearer " + two)->number(), second->number());
    EXPECT_EQ(list.find("Bearer " + two)->name(), "line 1");
    EXPECT_NE(list.find("Bearer " + three)->number(), number_of_first);
    EXPECT_NE(list.find("Bearer " + three)->number(), second->number());
    access_list::client* const now = list.find("Bearer " + two);
    list.replace(read(two + " rate=1\n" + one + "\n"));
    EXPECT_EQ(list.find("Bearer " + two), now);                        // the same place and terms
    EXPECT_NE(list.find("Bearer " + one)->number(), number_of_first);  // which went meanwhile
    // A name is not a place of the file.
    list.replace({{.name = "line 1", .tokens = {"other"}}});
    EXPECT_NE(list.find("Bearer other")->number(), second->number());
}

TEST(access_list, only_a_regular_file_is_read_without_a_wait) {
    const io::testing::temporary_directory folder;
    const std::filesystem::path pipe = folder / "pipe", file = folder / "tokens";
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    EXPECT_THROW(read_clients(pipe, false), file_error);  // no process writes there
    std::ofstream(file) << "a-token-of-16-or-more\n";
    ::chmod(file.c_str(), 0600);
    EXPECT_EQ(read_clients(file, false).size(), 1U);
    std::thread writer([&] { std::ofstream(pipe) << "a-token-of-16-or-more\n"; });
    EXPECT_EQ(read_clients(pipe).size(), 1U);
    writer.join();
}

TEST(access_list, a_second_s_requests_may_come_at_once_and_no_more) {
    const auto list = list_of({{.name = "a", .tokens = {"x"}, .requests_per_second = 10}});
    access_list::client& its = *list->find("Bearer x");
    const auto begin = access_list::client::clock::now();
    const auto accepted = [&](access_list::client::clock::duration at) {
        int count = 0;
        while (its.admit({}, begin + at) == admission::accepted) ++count;
        return count;
    };
    EXPECT_EQ(accepted(0s), 10);
    EXPECT_EQ(accepted(99ms), 0);
    EXPECT_EQ(accepted(100ms), 1);
    EXPECT_EQ(accepted(350ms), 2);
    EXPECT_EQ(accepted(100s), 10);  // what was not sent is not saved up
    EXPECT_EQ(its.count(admission::accepted), 23U);
    EXPECT_EQ(its.count(admission::too_many), 5U);
}

TEST(access_list, what_is_forbidden_counts_for_the_rate) {
    const auto list =
        list_of({{.name = "a", .tokens = {"x"}, .roles = {true, false, false}, .requests_per_second = 3}});
    access_list::client& its = *list->find("Bearer x");
    const auto now = access_list::client::clock::now();
    EXPECT_EQ(its.admit(client_role::load, now), admission::forbidden);
    EXPECT_EQ(its.admit(client_role::infer, now), admission::accepted);
    EXPECT_EQ(its.admit({}, now), admission::accepted);
    EXPECT_EQ(its.admit(client_role::load, now), admission::too_many);
}

TEST(access_list, numbers_are_unique_in_the_process) {
    const auto one = testing::client_with({"x"}), other = testing::client_with({"x"});
    EXPECT_NE(one->find("Bearer x")->number(), other->find("Bearer x")->number());
}

TEST(access_list, threads_together_get_no_more_than_the_limit) {
    const auto list = list_of({{.name = "a", .tokens = {"x"}, .requests_per_second = 1000}});
    access_list::client& its = *list->find("Bearer x");
    const auto now = access_list::client::clock::now();
    std::atomic<int> accepted{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
            for (int each = 0; each < 1000; ++each) accepted += its.admit({}, now) == admission::accepted ? 1 : 0;
        });
    }
    for (std::thread& each : threads) each.join();
    EXPECT_EQ(accepted.load(), 1000);
}

TEST(access_list, a_part_is_bounded_by_itself_and_by_the_whole) {
    const auto list = list_of(
        {{.name = "a", .tokens = {"x"}, .memory_bytes = 100, .sequences = 2}, {.name = "b", .tokens = {"y"}}}, 150);
    request_budget& a = *list->find("Bearer x")->budget();
    request_budget& b = *list->find("Bearer y")->budget();
    EXPECT_EQ(&b, list->whole().get());  // without limits of its own
    EXPECT_FALSE(a.take(101));
    EXPECT_TRUE(a.take(80));
    EXPECT_EQ(b.bytes(), 80U);
    EXPECT_FALSE(a.has_room(21));
    EXPECT_TRUE(a.has_room(20));
    EXPECT_TRUE(b.take(60));
    EXPECT_FALSE(a.has_room(20));  // the whole has 10
    EXPECT_FALSE(a.take(20));
    EXPECT_EQ(a.bytes(), 80U);
    EXPECT_EQ(b.bytes(), 140U);
    b.give(60);
    a.give(80);
    a.take_existing(500);
    EXPECT_EQ(b.bytes(), 500U);
    a.give(500);
    EXPECT_FALSE(a.take_kept(51));
    EXPECT_TRUE(a.take_kept(50));
    EXPECT_FALSE(a.take_kept(1));
    EXPECT_TRUE(b.take_kept(25));
    EXPECT_FALSE(b.take_kept(1));  // half of the whole
    a.give_kept(50);
    b.give_kept(25);
    EXPECT_EQ(a.bytes() + b.bytes(), 0U);
    EXPECT_TRUE(a.begin_sequence());
    EXPECT_TRUE(a.begin_sequence());
    EXPECT_FALSE(a.begin_sequence());
    a.end_sequence();
    EXPECT_TRUE(a.begin_sequence());
}

}  // namespace
}  // namespace sluice::serve::access_list_tests

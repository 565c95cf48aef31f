// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/request_timeline.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "serve/support/fake_engine.hpp"

namespace sluice::serve::request_timeline_tests {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using ::testing::ElementsAre;
using testing::fake_model;
using ::testing::HasSubstr;
using testing::held;
using ::testing::Not;
using testing::row_of;
using clock = request_record::clock;

const clock::time_point origin = clock::time_point{} + 100s;

// Computed in `batch`; each stage takes 10 us.
request_record computed(std::chrono::microseconds begin, std::uint64_t batch = 1, std::uint64_t batch_rows = 1) {
    request_record made{.received = origin + begin};
    made.complete = made.received + 10us;
    made.progress = {.queued = made.received + 20us,
                     .begun = made.received + 30us,
                     .joined = made.received + 40us,
                     .computed = made.received + 50us,
                     .rows = 1,
                     .batch = batch,
                     .batch_rows = batch_rows};
    made.answered = made.received + 60us;
    made.version = 3;
    made.status = 200;
    made.model = short_text<128>("digits");
    made.device = short_text<64>("cpu:0");
    return made;
}

std::vector<json> slices_of(const std::vector<request_record>& requests) {
    std::vector<json> found;
    const json whole =
        json::parse(chrome_trace_of(requests));  // named: a loop over a temporary's part would outlive it
    for (const json& each : whole.at("traceEvents"))
        if (each.at("ph") == "X") found.push_back(each);
    return found;
}

std::vector<std::string> names_of(const std::vector<json>& slices) {
    std::vector<std::string> names;
    for (const json& each : slices) names.push_back(each["name"]);
    return names;
}

// A record whose parts all say the same number.
request_record numbered(std::uint64_t number) {
    request_record made;
    made.received = clock::time_point{} + std::chrono::nanoseconds(number);
    made.answered = made.received;
    made.version = number;
    made.progress.batch = number;
    const std::string text = std::to_string(number);
    made.model = short_text<128>(text);
    made.id = short_text<64>(text);
    made.device = short_text<64>(text);
    return made;
}

bool is_whole(const request_record& of) {
    const std::string text = std::to_string(of.version);
    return of.progress.batch == of.version && of.model.view() == text && of.id.view() == text &&
           of.device.view() == text && of.received.time_since_epoch() == std::chrono::nanoseconds(of.version) &&
           of.answered == of.received;
}

TEST(request_timeline, keeps_the_last_requests_in_their_order) {
    request_timeline kept;
    EXPECT_TRUE(kept.last().empty());
    kept.add(numbered(7));
    ASSERT_EQ(kept.last().size(), 1U);
    EXPECT_TRUE(is_whole(kept.last().front()));
    const std::uint64_t many = 3 * request_timeline::most + 5;
    for (std::uint64_t i = 0; i < many; ++i) kept.add(numbered(i));
    const std::vector<request_record> last = kept.last();
    ASSERT_EQ(last.size(), request_timeline::most);
    for (std::size_t i = 0; i < last.size(); ++i) {
        EXPECT_EQ(last[i].version, many - request_timeline::most + i);
        EXPECT_TRUE(is_whole(last[i]));
    }
    EXPECT_EQ(kept.skipped(), 0U);
}

TEST(request_timeline, gives_whole_records_while_several_threads_add) {
    request_timeline kept;
    std::atomic<bool> ends{false};
    std::vector<std::thread> threads;
    constexpr std::uint64_t adders = 4, each_adds = 20'000;
    for (std::uint64_t t = 0; t < adders; ++t) {
        threads.emplace_back([&, t] {
            for (std::uint64_t i = 0; i < each_adds; ++i) kept.add(numbered(t * each_adds + i));
        });
    }
    std::size_t looks = 0, torn = 0;
    std::thread reader([&] {
        do {
            for (const request_record& each : kept.last()) torn += is_whole(each) ? 0 : 1;
            ++looks;
        } while (!ends);
    });
    for (std::thread& each : threads) each.join();
    ends = true;
    reader.join();
    EXPECT_GT(looks, 0U);
    EXPECT_EQ(torn, 0U);
    const std::vector<request_record> last = kept.last();
    EXPECT_GE(last.size() + kept.skipped(), request_timeline::most);
    std::set<std::uint64_t> numbers;
    for (const request_record& each : last) {
        EXPECT_TRUE(is_whole(each));
        numbers.insert(each.version);
    }
    EXPECT_EQ(numbers.size(), last.size());
}

TEST(request_timeline, long_texts_are_cut_and_say_so) {
    EXPECT_EQ(short_text<4>("abcd").view(), "abcd");
    EXPECT_FALSE(short_text<4>("abcd").is_cut());
    EXPECT_EQ(short_text<4>("abcde").view(), "abcd");
    EXPECT_TRUE(short_text<4>("abcde").is_cut());
    request_record one = computed(0us);
    one.id = short_text<64>(std::string(63, 'x') + "ü");  // the cut is inside of a character
    const json slice = slices_of({one}).back();
    EXPECT_EQ(slice["args"]["id"], std::string(63, 'x') + "\uFFFD…");
}

TEST(request_timeline, shows_the_stages_of_a_request_one_after_the_other) {
    const std::vector<json> slices = slices_of({computed(0us, 17, 12)});
    EXPECT_THAT(names_of(slices), ElementsAre("batch", "arrive", "parse", "queue", "join", "compute", "finish"));
    EXPECT_EQ(slices[0]["ts"], 30);  // with the copies of its inputs
    EXPECT_EQ(slices[0]["dur"], 20);
    EXPECT_EQ(slices[0]["args"]["operation"], "digits, 12 rows");
    for (std::size_t i = 1; i < slices.size(); ++i) {
        EXPECT_EQ(slices[i]["ts"], 10 * (i - 1));
        EXPECT_EQ(slices[i]["dur"], 10);
        const json& its = slices[i]["args"];
        EXPECT_EQ(its["model"], "digits");
        EXPECT_EQ(its["version"], "3");
        EXPECT_EQ(its["protocol"], "HTTP");
        EXPECT_EQ(its["status"], "200");
        EXPECT_EQ(its["batch"], "17");
        EXPECT_EQ(its["batch rows"], "12");
        EXPECT_FALSE(its.contains("id"));
    }
}

TEST(request_timeline, a_request_that_was_refused_ends_with_the_stage_that_it_reached) {
    request_record slow{.received = origin, .answered = origin + 30us};  // its body did not come
    slow.status = 408;
    EXPECT_THAT(names_of(slices_of({slow})), ElementsAre("arrive"));
    request_record unknown{.received = origin, .complete = origin + 10us, .answered = origin + 30us};
    unknown.status = 404;
    EXPECT_THAT(names_of(slices_of({unknown})), ElementsAre("arrive", "parse"));
    request_record late = computed(0us);
    late.progress = {.queued = late.progress.queued, .rows = 1};
    late.status = 504;
    const std::vector<json> slices = slices_of({late});
    EXPECT_THAT(names_of(slices), ElementsAre("arrive", "parse", "queue"));
    EXPECT_EQ(slices[2]["dur"], 40);
    EXPECT_EQ(slices[2]["args"]["status"], "504");
    request_record failed = computed(0us);  // its inputs could not be copied
    failed.progress.joined = {};
    EXPECT_THAT(names_of(slices_of({failed})), ElementsAre("batch", "arrive", "parse", "queue", "join", "finish"));
}

TEST(request_timeline, requests_that_are_there_at_a_time_have_threads_of_their_own) {
    // The first three are one batch; the fourth comes after all of them.
    std::vector<request_record> all{computed(0us, 1, 3), computed(0us, 1, 3), computed(0us, 1, 3), computed(100us, 2)};
    request_record elsewhere = computed(0us, 3);
    elsewhere.device = short_text<64>("cuda:0");
    all.push_back(elsewhere);
    const json events = json::parse(chrome_trace_of(all)).at("traceEvents");
    std::map<int, std::string> processes;
    std::map<std::pair<int, int>, std::string> threads;
    std::map<std::pair<int, int>, int> arrived;
    std::size_t batches = 0;
    for (const json& each : events) {
        if (each["name"] == "process_name") processes[each["pid"]] = each["args"]["name"];
        if (each["name"] == "thread_name") threads[{each["pid"], each["tid"]}] = each["args"]["name"];
        if (each["name"] == "arrive") ++arrived[{each["pid"], each["tid"]}];
        if (each["name"] == "batch" && each["pid"] == 0) ++batches;
    }
    EXPECT_EQ(processes, (std::map<int, std::string>{{0, "cpu:0"}, {1, "cuda:0"}}));
    EXPECT_EQ(threads, (std::map<std::pair<int, int>, std::string>{{{0, 0}, "batches"},
                                                                   {{0, 1}, "requests 1"},
                                                                   {{0, 2}, "requests 2"},
                                                                   {{0, 3}, "requests 3"},
                                                                   {{1, 0}, "batches"},
                                                                   {{1, 1}, "requests"}}));
    EXPECT_EQ(arrived[std::pair(0, 1)], 2);
    EXPECT_EQ(batches, 2U);
}

TEST(request_timeline, the_picture_leaves_out_time_without_requests) {
    const auto far_apart = picture_of({{computed(0us), computed(50us, 2), computed(10'000'000us, 3)}});
    // The second one begins before the first one has ended; the third one 10 us after the second one's end.
    EXPECT_THAT(far_apart, HasSubstr("from 0 µs to 10 µs: 10 µs"));
    EXPECT_THAT(far_apart, HasSubstr("from 50 µs to 60 µs: 10 µs"));
    EXPECT_THAT(far_apart, HasSubstr("from 120 µs to 130 µs: 10 µs"));
    EXPECT_THAT(far_apart, HasSubstr("from 170 µs to 180 µs: 10 µs"));
    EXPECT_EQ(slices_of({computed(0us), computed(10'000'000us, 2)}).back()["ts"], 10'000'050);  // but not in the JSON
}

TEST(request_timeline, what_clients_write_is_escaped) {
    request_record one = computed(0us);
    one.id = short_text<64>("\"}]<script>alert(1)</script>\x01\xff");
    one.model = short_text<128>("</title><script>&");
    EXPECT_EQ(slices_of({one}).back()["args"]["id"], "\"}]<script>alert(1)</script>\x01\uFFFD");
    const std::string picture = picture_of({{one}});
    EXPECT_THAT(picture, HasSubstr("&lt;script&gt;alert(1)"));
    EXPECT_THAT(picture, Not(HasSubstr("<script>alert")));
    EXPECT_THAT(picture, Not(HasSubstr("</title><script>&")));
}

TEST(request_timeline, an_empty_one_is_valid) {
    EXPECT_TRUE(json::parse(chrome_trace_of({}))["traceEvents"].empty());
    EXPECT_THAT(picture_of({}), HasSubstr("Nothing was traced."));
}

TEST(request_timeline, its_size_is_bounded) {
    std::vector<request_record> all;
    for (std::size_t i = 0; i < request_timeline::most; ++i) {
        all.push_back(computed(std::chrono::microseconds(i), i + 1));
        all.back().model = short_text<128>(std::string(200, '\x01'));  // the longest when escaped
        all.back().id = short_text<64>(std::string(200, '\x01'));
    }
    EXPECT_LT(chrome_trace_of(all).size(), 16U << 20);
    EXPECT_LT(picture_of(all).size(), 4U << 20);
}

TEST(request_timeline, a_model_says_how_far_a_request_has_come) {
    const auto fake = std::make_shared<fake_model>();
    const auto model = served_model::make("m", 1, fake, {});
    std::vector<std::shared_ptr<testing::test_call>> calls{row_of(1), row_of(2), row_of(3)};
    {
        const held one_at_a_time(*fake);
        ASSERT_TRUE(model->submit(calls[0]));
        fake->wait_until_running();
        ASSERT_TRUE(model->submit(calls[1]));
        ASSERT_TRUE(model->submit(calls[2]));
    }
    for (const auto& each : calls) each->get();
    for (const auto& each : calls) {
        const infer_call::progress& its = each->so_far;
        EXPECT_NE(its.queued, clock::time_point{});
        EXPECT_LE(its.queued, its.begun);
        EXPECT_LE(its.begun, its.joined);
        EXPECT_LE(its.joined, its.computed);
        EXPECT_EQ(its.rows, 1U);
        EXPECT_NE(its.batch, 0U);
    }
    EXPECT_NE(calls[0]->so_far.batch, calls[1]->so_far.batch);
    EXPECT_EQ(calls[1]->so_far.batch, calls[2]->so_far.batch);  // they waited together
    EXPECT_EQ(calls[1]->so_far.batch_rows, 2U);
    EXPECT_EQ(model->device(), "none");
}

}  // namespace
}  // namespace sluice::serve::request_timeline_tests

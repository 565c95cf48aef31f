// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "fuzz/read_config_yaml.hpp"
#include "fuzz/replay.hpp"
#include "serve/config_text.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/serve/model_config.hpp"

namespace sluice::serve::config_yaml_tests {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

json read(const std::string& text) { return parse_config_yaml(text, "config.yaml"); }

TEST(config_yaml, sets_the_same_members_as_json) {
    const model_config config = parse_model_config(
        "# how digits is served\n"
        "max_batch: 8\n"
        "preferred_batch_size: [4, 8]\n"
        "versions:\n"
        "  - 1\n"
        "  - 3\n"
        "device: cpu:0\n"
        "priority_levels: 2\n"
        "default_priority: 2\n"
        "default_queue_policy:\n"
        "  timeout_action: delay\n"
        "  timeout_us: 500\n"
        "priority_queue_policy:\n"
        "  1: {queue: 5, allow_timeout_override: false}\n",
        "config.yaml");
    EXPECT_EQ(config.max_batch, 8U);
    EXPECT_EQ(config.preferred_batch_size, (std::vector<std::size_t>{4, 8}));
    EXPECT_EQ(config.versions, (std::vector<std::size_t>{1, 3}));
    EXPECT_EQ(config.device, "cpu:0");
    EXPECT_EQ(config.default_queue_policy.timeout_action, timeout_action::delay);
    EXPECT_EQ(config.default_queue_policy.timeout_us, 500U);
    EXPECT_EQ(config.priority_queue_policy.at(1).queue, 5U);
    EXPECT_FALSE(config.priority_queue_policy.at(1).allow_timeout_override);
}

TEST(config_yaml, is_checked_as_json_is) {
    try {
        parse_model_config("max_bach: 3\n", "models/digits/config.yaml");
        FAIL() << "accepted";
    } catch (const file_error& failure) {
        EXPECT_THAT(failure.what(), HasSubstr("models/digits/config.yaml"));
        EXPECT_THAT(failure.what(), HasSubstr("'max_bach': this key is unknown; the keys are"));
    }
    EXPECT_THROW(parse_model_config("queue: '1'\n", "config.yaml"), file_error);
    EXPECT_THROW(parse_model_config("queue: 1.5\n", "config.yaml"), file_error);
    EXPECT_THROW(parse_model_config("queue: -1\n", "config.yaml"), file_error);
    EXPECT_THROW(parse_model_config("- queue\n", "config.yaml"), file_error);
    EXPECT_THROW(parse_model_config("{}", "config.toml"), file_error);
}

TEST(config_yaml, scalars_are_those_of_the_core_schema) {
    EXPECT_EQ(read("[0, 12, +5, 010, 0o17, 0xfF]"), json::parse("[0, 12, 5, 10, 15, 255]"));
    EXPECT_EQ(read("[true, True, FALSE, null, ~, Null]"), json::parse("[true, true, false, null, null, null]"));
    // Words of YAML 1.1, and what only begins like a number.
    EXPECT_EQ(read("[yes, no, on, off, 1_000, 12:30, 0b1, 0o8, 0xg, '', +, ., e5, 1e, '12']"),
              json::parse(R"(["yes", "no", "on", "off", "1_000", "12:30", "0b1", "0o8", "0xg", "", "+", ".", "e5", "1e",
                              "12"])"));
    for (const char* const number :
         {"1.5", "-.5", "1.", "1e3", "+1.e-3", ".inf", "-.INF", ".nan", "-3", "99999999999999999999999", "1.0"}) {
        const json value = read(number);
        EXPECT_TRUE(value.is_number() && !value.is_number_unsigned()) << number;
    }
    EXPECT_EQ(read("18446744073709551615"), json(~std::uint64_t{0}));
    EXPECT_EQ(read("a: |\n  text\n").at("a"), "text\n");
    EXPECT_EQ(read(R"("\u00a0\u0085\L")"), "\xc2\xa0\xc2\x85\xe2\x80\xa8");
}

TEST(config_yaml, tags_of_the_core_schema_are_accepted_where_they_fit) {
    EXPECT_EQ(read("[!!str 12, !!int '12', !!bool true, !!null ~]"), json::parse(R"(["12", 12, true, null])"));
    EXPECT_EQ(read("!!map {!!str a: !!seq [1]}"), json::parse(R"({"a": [1]})"));
}

struct wrong_yaml {
    const char* what;
    std::string text;
    const char* says;
};
class wrong_yamls : public ::testing::TestWithParam<wrong_yaml> {};

TEST_P(wrong_yamls, are_refused_with_the_line) {
    try {
        const json got = read(GetParam().text);
        FAIL() << "accepted: " << got.dump();
    } catch (const file_error& failure) {
        EXPECT_THAT(failure.what(), HasSubstr("config.yaml"));
        EXPECT_THAT(failure.what(), HasSubstr(GetParam().says));
    }
}

// Nine lines that would be a billion words.
std::string bomb() {
    std::string text = "a: &a [x, x, x, x, x, x, x, x, x, x]\n";
    for (char name = 'b'; name <= 'i'; ++name) {
        const std::string before = std::string("*") + static_cast<char>(name - 1);
        text += std::string(1, name) + ": &" + name + " [" + before;
        for (int i = 1; i < 10; ++i) text += ", " + before;
        text += "]\n";
    }
    return text;
}

INSTANTIATE_TEST_SUITE_P(
    all, wrong_yamls,
    ::testing::Values(
        wrong_yaml{"twice", "queue: 1\n\nqueue: 2\n", "line 3: the key 'queue' is there twice"},
        wrong_yaml{"twice_inside", "a: {b: 1, b: 2}\n", "the key 'b' is there twice"},
        wrong_yaml{"twice_with_quotes", "1: a\n'1': b\n", "the key '1' is there twice"},
        wrong_yaml{"bomb", bomb(), "line 1: anchors (&name) are not accepted"},
        wrong_yaml{"anchor", "queue: &q 1\n", "anchors"}, wrong_yaml{"anchor_of_nothing", "queue: &q\n", "anchors"},
        wrong_yaml{"anchor_of_key", "&q queue: 1\n", "anchors"},
        wrong_yaml{"alias", "queue: *q\n", "anchor is not defined"},
        wrong_yaml{"merge", "a: {<<: *b}\n", "anchor is not defined"},
        wrong_yaml{"own_tag", "queue: !own 1\n", "the tag '!own'"},
        wrong_yaml{"own_tag_of_map", "!own {}\n", "the tag '!own'"},
        wrong_yaml{"own_tag_of_key", "!own queue: 1\n", "the tag '!own'"},
        wrong_yaml{"python_tag", "a: !!python/object:os.system x\n",
                   "the tag 'tag:yaml.org,2002:python/object:os.system'"},
        wrong_yaml{"binary_tag", "a: !!binary aGk=\n", "2002:binary'"},
        wrong_yaml{"set_tag", "!!set {a, b}\n", "2002:set'"}, wrong_yaml{"wrong_int", "a: !!int x\n", "2002:int'"},
        wrong_yaml{"map_as_list", "!!seq {}\n", "2002:seq'"},
        wrong_yaml{"renamed_tag", "%TAG !! tag:example.com,2000:\n---\na: !!int 1\n", "tag:example.com,2000:int"},
        wrong_yaml{"list_as_key", "[a]: 1\n", "a key is a text"}, wrong_yaml{"map_as_key", "? {a: 1}\n: 1\n", "a key"},
        wrong_yaml{"null_as_key", "~: 1\n", "a key is a text"},
        wrong_yaml{"two_documents", "a: 1\n---\nb: 2\n", "a second document"}, wrong_yaml{"nothing", "", "no document"},
        wrong_yaml{"only_comment", "# nothing\n", "no document"}, wrong_yaml{"open", "a: [1\n", "this is no YAML"},
        wrong_yaml{"tab", "a:\n\t- 1\n", "this is no YAML"},
        wrong_yaml{"deep", "a: " + std::string(9, '[') + std::string(9, ']') + "\n", "too deep"},
        wrong_yaml{"very_deep", "a: " + std::string(100'000, '['), "line 1: "},
        wrong_yaml{"end_of_file", "a: 1\n\x04\nb: [\n", "control characters"},
        wrong_yaml{"zero", std::string("a: 1\n\0b: 2\n", 11), "control characters"},
        wrong_yaml{"no_break_space", "\"\\_\": 1\n", "line 1: the escapes \\N and \\_ are not accepted"},
        wrong_yaml{"next_line", "a: 1\nb: \"x\\N\"\n", "line 2: the escapes \\N and \\_ are not accepted"},
        wrong_yaml{"latin_1", "a: \xe4\n", "no UTF-8"},
        wrong_yaml{"utf_16",
                   "\xff\xfe"
                   "a",
                   "no UTF-8"}),
    [](const auto& each) { return each.param.what; });

TEST(config_yaml, files_of_the_fuzzer_are_read_or_refused) {
    sluice::fuzz::replay("fuzz/corpus/config_yaml", fuzz::read_config_yaml);
    sluice::fuzz::replay("regressions/config_yaml", fuzz::read_config_yaml);
}

}  // namespace
}  // namespace sluice::serve::config_yaml_tests

// SPDX-License-Identifier: Apache-2.0
// Drawings of graphs: every command and every edge is there, with its words, whatever they hold.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <string_view>

#include "drawing/command_layout.hpp"
#include "graph/support/dot_reader.hpp"
#include "graph/support/graph_builder.hpp"
#include "sluice/base/error.hpp"
#include "sluice/drawing/graph_drawing.hpp"
#include "support/xml_reader.hpp"

namespace sluice::graph_drawing_tests {
namespace {

using testing::dot_graph;
using testing::dot_reader;
using testing::graph_builder;
using testing::sample_graph;
using testing::xml_element;
using testing::xml_reader;

const std::string hostile =
    "</text></svg><script>\"'&amp;]]>\\N\\\n\r\x01\x7f\xff\xed\xa0\x80" + std::string(1, '\0') + "\u00fc\U0001F30A";

std::vector<const xml_element*> boxes_of(const xml_element& picture) {
    return picture.all([](const xml_element& each) { return each.name == "g" && each.is("box"); });
}
// Those with words of their own, not the legend's.
std::vector<const xml_element*> arrows_of(const xml_element& picture) {
    return picture.all([](const xml_element& each) {
        return each.is("arrow") && !each.children.empty() && each.children.front().name == "title";
    });
}
// Takes both by value: g++ 13 and later warn of a reference that may come from a temporary argument.
const xml_element& titled(std::span<const xml_element* const> all, std::string_view words) {
    for (const xml_element* each : all) {
        if (each->child("title").text.find(words) != std::string::npos) return *each;
    }
    throw std::runtime_error("nothing with " + std::string(words));
}
std::string words_of(const xml_element& of, std::string_view css_class) {
    for (const xml_element& each : of.children) {
        if (each.name == "text" && each.is(css_class)) return each.text;
    }
    return {};
}

struct rectangle {
    double left, top, right, bottom;
};
rectangle rectangle_of(const xml_element& box) {
    const xml_element& rect = box.child("rect");
    const double x = rect.number("x"), y = rect.number("y");
    return {x, y, x + rect.number("width"), y + rect.number("height")};
}

// A chain of kernels, some of which also read what the first has written.
command_graph chain(std::size_t count) {
    graph_builder build;
    const auto memory = build.memory("x", 64);
    for (std::uint32_t i = 0; i < count; ++i) {
        std::vector<graph_edge> after;
        if (i > 0) after.push_back({i - 1, memory, edge_reason::write_after_write});
        if (i > 1 && i % 3 == 0) after.push_back({0, memory, edge_reason::read_after_write});
        build.kernel("step", std::move(after), {}, {memory});
    }
    return build.take();
}

TEST(graph_svg, shows_each_command_with_its_name_kind_and_size) {
    const xml_element picture = xml_reader::read(to_svg(sample_graph()));
    const auto boxes = boxes_of(picture);
    ASSERT_EQ(boxes.size(), 8u);
    const xml_element& up = titled(boxes, "upload");
    EXPECT_TRUE(up.child("rect").is("upload"));
    EXPECT_EQ(words_of(up, "user"), "images");
    EXPECT_EQ(words_of(up, "command"), "upload");
    EXPECT_EQ(words_of(up, "what"), "16 KiB");
    const xml_element& product = titled(boxes, "gemm (library call)");
    EXPECT_TRUE(product.child("rect").is("library-call"));
    EXPECT_EQ(product.child("title").text,
              "gemm (library call)\noperation layer 1\nwrites 4 KiB\nreads input, 16 KiB\nwrites zeros, 4 KiB");
    const xml_element& scale = titled(boxes, "scale");
    EXPECT_TRUE(scale.child("rect").is("kernel"));
    EXPECT_EQ(words_of(scale, "what"), "kernel, 4 blocks of 256");
    EXPECT_EQ(words_of(titled(boxes, "zeros (fill)"), "what"), "fill, 4 KiB");
    EXPECT_TRUE(titled(boxes, "copy (download)").child("rect").is("download"));
    EXPECT_EQ(words_of(titled(boxes, "repeat_while"), "what"), "loop, as long as this is not 0: zeros, 4 KiB");
}

TEST(graph_svg, shows_the_bytes_and_the_rows_of_a_copy) {
    graph_builder build;
    build.add("place", copy_command{nullptr, nullptr, 64, copy_direction::device_to_device, {}, nullptr, {32, 256, 64}},
              {}, {}, {});
    const xml_element picture = xml_reader::read(to_svg(build.take()));
    EXPECT_EQ(words_of(titled(boxes_of(picture), "place"), "what"), "device copy, 2 KiB in 32 rows");
}

TEST(graph_svg, gives_each_arrow_its_reason) {
    const xml_element picture = xml_reader::read(to_svg(sample_graph()));
    const auto arrows = arrows_of(picture);
    ASSERT_EQ(arrows.size(), 6u);
    const xml_element& read = titled(arrows, "gemm (layer 1)\ncomes after upload (images)");
    EXPECT_TRUE(read.is("read-after-write"));
    EXPECT_EQ(read.child("title").text,
              "gemm (layer 1)\ncomes after upload (images)\nreads what was written: input, 16 KiB");
    EXPECT_TRUE(titled(arrows, "overwrite\n").is("write-after-read"));
    const xml_element& early = titled(arrows, "scale\n");
    EXPECT_TRUE(early.is("write-after-write"));
    EXPECT_TRUE(early.is("early"));
    EXPECT_EQ(std::ranges::count_if(arrows, [](const xml_element* each) { return each->is("early"); }), 1);
}

TEST(graph_svg, writes_the_reason_at_each_arrow_where_there_is_room) {
    for (const command_graph& graph : {sample_graph(), chain(10)}) {
        const xml_element picture = xml_reader::read(to_svg(graph));
        const auto plates = picture.of_class("plate"), over = picture.of_class("over");
        ASSERT_EQ(over.size(), plates.size());
        EXPECT_GE(plates.size(), 4u);
        for (std::size_t i = 0; i < plates.size(); ++i) {
            const double left = plates[i]->number("x"), right = left + plates[i]->number("width");
            EXPECT_GT(left, 0);
            EXPECT_LT(right, picture.number("width"));
            for (std::size_t other = 0; other < i; ++other) {
                if (std::abs(plates[other]->number("y") - plates[i]->number("y")) > 28.9) continue;
                const double theirs = plates[other]->number("x");
                EXPECT_TRUE(right <= theirs + 0.02 || theirs + plates[other]->number("width") <= left + 0.02);
            }
        }
    }
    const xml_element picture = xml_reader::read(to_svg(sample_graph()));
    std::map<std::string, int> why;
    for (const xml_element* each : picture.of_class("why")) ++why[each->text];
    EXPECT_EQ(why,
              (std::map<std::string, int>{
                  {"reads what was written", 3}, {"overwrites what was read", 1}, {"overwrites what was written", 2}}));
}

TEST(graph_svg, draws_a_body_inside_its_loop) {
    graph_builder innermost, inner, build;
    const auto x = build.memory("x", 4);
    innermost.kernel("deep", {}, {}, {x});
    inner.kernel("before", {}, {}, {x});
    inner.loop("inner loop", innermost.take(), {{0, x, edge_reason::read_after_write}}, {x});
    build.loop("outer loop", inner.take(), {}, {x});
    const xml_element picture = xml_reader::read(to_svg(build.take()));
    const xml_element& outer = titled(boxes_of(picture), "outer loop");
    const xml_element& middle = titled(boxes_of(outer), "inner loop");
    const xml_element& deep = titled(boxes_of(middle), "deep");
    EXPECT_EQ(boxes_of(outer).size(), 4u);  // with itself
    const auto is_inside = [](const rectangle& a, const rectangle& b) {
        return a.left > b.left && a.right < b.right && a.top > b.top + 30 && a.bottom < b.bottom;
    };
    EXPECT_TRUE(is_inside(rectangle_of(deep), rectangle_of(middle)));
    EXPECT_TRUE(is_inside(rectangle_of(middle), rectangle_of(outer)));
    EXPECT_GT(rectangle_of(middle).top, rectangle_of(titled(boxes_of(outer), "before")).bottom);
    EXPECT_LT(rectangle_of(outer).right, picture.number("width"));
    EXPECT_LT(rectangle_of(outer).bottom, picture.number("height"));
}

TEST(graph_svg, is_well_formed_whatever_the_names_hold) {
    graph_builder build;
    const auto x = build.memory(hostile, 4);
    const auto first = build.add(hostile, library_command{}, {}, {}, {x}, hostile);
    build.add(hostile, host_command{}, {{first, x, edge_reason::read_after_write}}, {x}, {}, hostile);
    const xml_element picture = xml_reader::read(to_svg(build.take()));
    EXPECT_TRUE(picture.all([](const xml_element& each) { return each.name == "script"; }).empty());
    const std::string kept = "</text></svg><script>\"'&amp;]]>\\N\\\n\r\uFFFD\x7f";
    EXPECT_EQ(boxes_of(picture).at(0)->child("title").text.substr(0, kept.size()), kept);
}

TEST(graph_svg, needs_nothing_outside_itself) {
    const std::string text = to_svg(sample_graph());
    for (const std::string needs : {"href", "<script", "url(", "@import", "@font-face"})
        EXPECT_EQ(text.find(needs), std::string::npos) << needs;
}

TEST(graph_svg, of_nothing_says_so) {
    const xml_element picture = xml_reader::read(to_svg({}));
    EXPECT_TRUE(boxes_of(picture).empty());
    const auto words = picture.of_class("muted");
    ASSERT_EQ(words.size(), 2u);
    EXPECT_EQ(words[0]->text, "0 commands, 0 edges");
    EXPECT_EQ(words[1]->text, "There is nothing in it.");
}

TEST(graph_dot, has_a_node_for_each_command_and_an_edge_for_each_edge) {
    const dot_graph read = dot_reader::read(to_dot(sample_graph()));
    ASSERT_EQ(read.nodes.size(), 8u);
    ASSERT_EQ(read.edges.size(), 6u);
    EXPECT_EQ(read.clusters, std::vector<std::string>{"cluster_n3"});
    EXPECT_EQ(read.nodes.at("n0").at("label"), "images\nupload\n16 KiB");
    EXPECT_EQ(read.nodes.at("n3_1").at("label"), "scale\nkernel, 4 blocks of 256");
    std::vector<std::string> ends;
    for (const auto& each : read.edges) {
        ends.push_back(each.from + " " + each.to);
        EXPECT_EQ(each.attributes.contains("style"), each.to == "n3_1");
        EXPECT_EQ(each.attributes.contains("lhead"), each.to == "n3");
        EXPECT_EQ(each.attributes.contains("ltail"), each.from == "n3_1");
    }
    EXPECT_EQ(ends, (std::vector<std::string>{"n3_0 n3_1", "n0 n2", "n1 n2", "n2 n3", "n3_1 n4", "n2 n5"}));
    EXPECT_EQ(read.edges[1].attributes.at("label"), "input, 16 KiB\nreads what was written");
}

TEST(graph_dot, has_the_colours_of_the_picture) {
    const command_graph graph = sample_graph();
    const std::string picture = to_svg(graph);
    for (const auto& [name, node] : dot_reader::read(to_dot(graph)).nodes)
        EXPECT_NE(picture.find("fill:" + node.at("fillcolor")), std::string::npos) << name;
}

TEST(graph_dot, can_be_read_whatever_the_names_hold) {
    graph_builder build;
    const auto x = build.memory(hostile, 4);
    graph_builder inner;
    inner.add(hostile, library_command{}, {}, {}, {x}, hostile);
    build.loop(hostile, inner.take());
    const dot_graph read = dot_reader::read(to_dot(build.take()));
    EXPECT_EQ(read.nodes.size(), 2u);
    const std::string kept = "</text></svg><script>\"'&amp;]]>\\N\\\n\uFFFD\uFFFD\uFFFD\uFFFD";
    EXPECT_EQ(read.nodes.at("n0_0").at("label").substr(0, kept.size()), kept);
}

TEST(graph_dot, of_nothing_is_an_empty_graph) {
    const dot_graph read = dot_reader::read(to_dot({}));
    EXPECT_TRUE(read.nodes.empty());
    EXPECT_TRUE(read.edges.empty());
}

detail::graph_layout lay_out(const command_graph& graph) {
    return detail::lay_out(detail::to_layout(graph, [](const graph_node&) { return detail::drawing_size{100, 40}; }));
}

TEST(graph_layout, puts_what_comes_later_below_and_keeps_neighbours_apart) {
    graph_builder build;
    const auto x = build.memory("x", 4);
    for (std::uint32_t i = 0; i < 60; ++i) {
        std::vector<graph_edge> after;
        for (const std::uint32_t back : {3u, 7u, 19u}) {
            if (i >= back + 5 && (i * back) % 4 != 0) after.push_back({i - back, x, edge_reason::read_after_write});
        }
        build.kernel("k", std::move(after));
    }
    const command_graph graph = build.take();
    const detail::graph_layout made = lay_out(graph);
    ASSERT_EQ(made.boxes.size(), 60u);
    std::size_t edges = 0;
    for (std::size_t i = 0; i < 60; ++i) {
        const detail::drawn_box& box = made.boxes[i];
        EXPECT_GE(box.x, -0.01);
        EXPECT_LE(box.x + box.width, made.width + 0.01);
        EXPECT_LE(box.bottom(), made.height + 0.01);
        for (const graph_edge& edge : graph.nodes[i].after) {
            ++edges;
            EXPECT_GT(box.y, made.boxes[edge.from].bottom() + 20);
        }
        for (std::size_t other = 0; other < i; ++other) {
            const detail::drawn_box& theirs = made.boxes[other];
            if (theirs.y == box.y) {
                EXPECT_GE(std::abs(theirs.x - box.x), box.width + 20);
            }
        }
    }
    ASSERT_EQ(made.arrows.size(), edges);
    // No arrow crosses a box: its vertical lines are next to the boxes of their rows.
    for (const detail::drawn_arrow& arrow : made.arrows) {
        const detail::drawn_box& to = made.boxes[arrow.node];
        EXPECT_EQ(arrow.way.back().bottom, to.y);
        EXPECT_GT(arrow.way.back().x, to.x);
        EXPECT_LT(arrow.way.back().x, to.x + to.width);
        for (std::size_t k = 1; k + 1 < arrow.way.size(); ++k) {
            for (const detail::drawn_box& box : made.boxes) {
                if (arrow.way[k].top > box.y || arrow.way[k].bottom < box.bottom()) continue;
                EXPECT_TRUE(arrow.way[k].x < box.x || arrow.way[k].x > box.x + box.width);
            }
        }
    }
}

TEST(graph_layout, puts_what_comes_after_nothing_just_above_what_needs_it) {
    graph_builder build;
    const auto x = build.memory("x", 4);
    const auto after = [&](std::vector<std::uint32_t> nodes) {
        std::vector<graph_edge> edges;
        for (const std::uint32_t each : nodes) edges.push_back({each, x, edge_reason::read_after_write});
        return edges;
    };
    for (const char* name : {"first", "weights", "unused"}) build.kernel(name);
    build.kernel("scaled weights", after({1}));
    for (const std::uint32_t from : {0u, 4u, 5u}) build.kernel("chain", after({from}));
    build.kernel("product", after({3, 6}));
    build.kernel("last", after({7, 1}));
    const command_graph graph = build.take();
    const detail::graph_layout made = lay_out(graph);
    std::vector<double> tops;
    for (const detail::drawn_box& each : made.boxes) tops.push_back(each.y);
    EXPECT_EQ(tops[2], tops[0]);  // nothing needs it
    EXPECT_EQ(tops[3], tops[4]);  // not a chain: `last` needs the weights too
    EXPECT_EQ(tops[1], tops[0]);

    graph_builder without_last;
    const auto y = without_last.memory("y", 4);
    for (const char* name : {"first", "weights"}) without_last.kernel(name);
    without_last.kernel("scaled weights", {{1, y, edge_reason::read_after_write}});
    for (const std::uint32_t from : {0u, 3u, 4u})
        without_last.kernel("chain", {{from, y, edge_reason::read_after_write}});
    without_last.kernel("product", {{2, y, edge_reason::read_after_write}, {5, y, edge_reason::read_after_write}});
    const command_graph chain_of_weights = without_last.take();
    const detail::graph_layout lowered = lay_out(chain_of_weights);
    EXPECT_EQ(lowered.boxes[2].y, lowered.boxes[5].y);
    EXPECT_EQ(lowered.boxes[1].y, lowered.boxes[4].y);
    EXPECT_LT(lowered.boxes[0].y, lowered.boxes[1].y);
}

TEST(graph_layout, keeps_a_long_chain_upright_beside_what_each_link_needs) {
    graph_builder build;
    const auto x = build.memory("x", 4);
    std::uint32_t last = build.kernel("first");
    for (int i = 0; i < 100; ++i) {
        std::vector<graph_edge> after{{last, x, edge_reason::read_after_write}};
        for (const char* name : {"weights", "bias"})
            after.push_back({build.kernel(name), x, edge_reason::read_after_write});
        last = build.kernel("link", std::move(after));
    }
    const command_graph graph = build.take();
    const detail::graph_layout made = lay_out(graph);
    EXPECT_LT(made.width, 5 * 126);  // three boxes a row, and little more
    EXPECT_LT(std::abs(made.boxes[3].center() - made.boxes.back().center()), 126);
}

TEST(graph_layout, puts_a_child_below_the_middle_of_its_parents) {
    graph_builder build;
    const auto x = build.memory("x", 4);
    for (int i = 0; i < 3; ++i) build.kernel("parent");
    std::vector<graph_edge> after;
    for (std::uint32_t i = 0; i < 3; ++i) after.push_back({i, x, edge_reason::read_after_write});
    build.kernel("child", std::move(after));
    const command_graph graph = build.take();
    const detail::graph_layout made = lay_out(graph);
    EXPECT_NEAR(made.boxes[3].center(), made.boxes[1].center(), 0.01);
    EXPECT_NEAR(made.width, 3 * 100 + 2 * 26, 0.01);
}

TEST(graph_drawing, of_a_thousand_commands_is_quick_and_small) {
    const command_graph graph = chain(1000);
    const auto begin = std::chrono::steady_clock::now();
    const std::string picture = to_svg(graph), text = to_dot(graph);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
    EXPECT_LT(picture.size(), 2'000'000u);
    const xml_element read = xml_reader::read(picture);
    EXPECT_EQ(boxes_of(read).size(), 1000u);
    EXPECT_EQ(arrows_of(read).size(), 999u + 333u);
    EXPECT_EQ(dot_reader::read(text).edges.size(), 999u + 333u);
}

// Every command reads what some twenty have written: more edges through the rows than anybody could follow.
TEST(graph_drawing, of_very_many_edges_stays_small) {
    graph_builder build;
    for (std::uint32_t i = 0; i < 1000; ++i) {
        const auto memory = build.memory("x", 4);
        std::vector<graph_edge> after;
        if (i > 0) after.push_back({i - 1, memory, edge_reason::read_after_write});
        for (std::uint32_t k = 1; k < 20 && k * 50 < i; ++k)
            after.push_back({i - k * 50, memory, edge_reason::read_after_write});
        build.kernel("k", std::move(after), {}, {memory});
    }
    const std::string picture = to_svg(build.take());
    EXPECT_LT(picture.size(), 10'000'000u);
    EXPECT_EQ(boxes_of(xml_reader::read(picture)).size(), 1000u);
}

TEST(graph_drawing, is_saved_by_the_files_extension) {
    std::string folder = (std::filesystem::temp_directory_path() / "sluice_graph_XXXXXX").string();
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    const std::filesystem::path home(folder);
    const auto read = [](const std::filesystem::path& file) {
        std::ostringstream text;
        text << std::ifstream(file, std::ios::binary).rdbuf();
        return text.str();
    };
    const command_graph graph = sample_graph();
    save_graph(graph, home / "graph.svg");
    save_graph(graph, home / "graph.dot");
    EXPECT_EQ(read(home / "graph.svg"), to_svg(graph));
    EXPECT_EQ(read(home / "graph.dot"), to_dot(graph));
    const auto code_of = [&](const std::filesystem::path& file) {
        try {
            save_graph(graph, file);
        } catch (const error& refused) {
            return refused.code();
        }
        return std::error_code();
    };
    EXPECT_EQ(code_of(home / "graph.png"), errc::invalid_argument);
    EXPECT_FALSE(std::filesystem::exists(home / "graph.png"));
    EXPECT_EQ(code_of(home / "no such folder" / "graph.svg"), errc::io_failed);
    std::filesystem::remove_all(home);
}

}  // namespace
}  // namespace sluice::graph_drawing_tests

// SPDX-License-Identifier: Apache-2.0
#include "drawing/graph_layout.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace sluice::detail {
namespace {

constexpr double gap_px = 26;      // between neighbours
constexpr double padding_px = 18;  // around a body
constexpr double way_px = 8;       // of an edge that passes through a row
constexpr std::size_t most_passings = 30'000;

// An item of a row: a node; or, after the nodes, an edge that passes through.
struct item {
    std::size_t rank = 0;
    double width = way_px;
    double center = 0;
    std::vector<std::size_t> parents = {}, children = {};  // items
};

// Edges out of one node that share their way: the node, and the number of its trunk.
using trunk_key = std::pair<std::uint32_t, std::uint32_t>;
struct trunk {
    std::size_t last_rank = 0;          // of the nodes that it leads to
    std::vector<std::size_t> passings;  // items, one for each rank between
    std::vector<std::size_t> to;        // nodes, by rank
};

class layered_layout {
public:
    layered_layout(const layout_graph& graph, double row_gap_px)
        : graph_(graph), row_gap_px_(row_gap_px), items_(graph.nodes.size()) {
        for (const layout_node& node : graph.nodes) made_.boxes.push_back(box_of(node));
        rank();
        connect();
        for (std::size_t i = 0; i < items_.size(); ++i) {
            rows_.resize(std::max(rows_.size(), items_[i].rank + 1));
            rows_[items_[i].rank].push_back(i);
        }
    }

    graph_layout make() {
        if (graph_.nodes.empty()) return std::move(made_);
        // Down, up and down again: parents with several children move to their middle.
        for (std::vector<std::size_t>& row : rows_) arrange(row, &item::parents);
        for (auto row = rows_.rbegin(); row != rows_.rend(); ++row) arrange(*row, &item::children);
        for (std::vector<std::size_t>& row : rows_) arrange(row, &item::parents);
        for (auto row = rows_.rbegin(); row != rows_.rend(); ++row) arrange_beginnings(*row);
        place_boxes();
        place_arrows();
        return std::move(made_);
    }

private:
    drawn_box box_of(const layout_node& node) const {
        drawn_box box{0, 0, node.words.width, node.words.height, nullptr, 0, 0};
        if (node.body != nullptr) {
            box.body = std::make_unique<graph_layout>(lay_out(*node.body, row_gap_px_));
            box.width = std::max(box.width, box.body->width + 2 * padding_px);
            box.height += box.body->height + padding_px;
            box.body_x = (box.width - box.body->width) / 2;
            box.body_y = node.words.height;
        }
        return box;
    }

    void rank() {
        for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
            items_[i].width = made_.boxes[i].width;
            for (const layout_edge& edge : graph_.nodes[i].after)
                items_[i].rank = std::max(items_[i].rank, items_[edge.from].rank + 1);
        }
        lower_beginnings();
    }

    // What comes after nothing, and chains from there, would all be at the top, with long arrows: they are moved down
    // to what needs them first.
    void lower_beginnings() {
        const std::size_t count = graph_.nodes.size();
        std::vector<std::size_t> children(count, 0), lowest(count, ~std::size_t{0});
        for (const layout_node& node : graph_.nodes)
            for (const layout_edge& edge : node.after) ++children[edge.from];
        std::vector<bool> is_movable(count, false);
        for (std::size_t i = 0; i < count; ++i) {
            const std::vector<layout_edge>& after = graph_.nodes[i].after;
            is_movable[i] =
                after.empty() || (after.size() == 1 && is_movable[after[0].from] && children[after[0].from] == 1);
        }
        for (std::size_t i = count; i-- > 0;) {
            if (is_movable[i] && children[i] != 0) items_[i].rank = lowest[i] - 1;
            for (const layout_edge& edge : graph_.nodes[i].after)
                lowest[edge.from] = std::min(lowest[edge.from], items_[i].rank);
        }
    }

    static trunk_key key_of(const layout_edge& edge) { return {edge.from, edge.trunk}; }

    // Gives items to the edges that pass through rows, and gives all items their neighbours.
    void connect() {
        for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
            for (const layout_edge& edge : graph_.nodes[i].after) {
                trunk& of = trunks_[key_of(edge)];
                of.last_rank = std::max(of.last_rank, items_[i].rank);
                of.to.push_back(i);
            }
        }
        std::size_t passings = 0;
        for (const auto& [key, of] : trunks_) passings += of.last_rank - items_[key.first].rank - 1;
        for (auto& [key, of] : trunks_) {
            std::size_t above = key.first;
            // Where there are too many, edges cross boxes: no reader could follow them anyway.
            for (std::size_t r = items_[above].rank + 1; r < of.last_rank && passings <= most_passings; ++r) {
                of.passings.push_back(items_.size());
                items_.push_back({r});
                join(above, items_.size() - 1);
                above = items_.size() - 1;
            }
            std::ranges::sort(of.to, {}, [&](std::size_t node) { return std::pair(items_[node].rank, node); });
            for (const std::size_t node : of.to) join(item_above(key.first, of, node), node);
        }
    }
    void join(std::size_t above, std::size_t below) {
        items_[above].children.push_back(below);
        items_[below].parents.push_back(above);
    }

    // How many of a trunk's passings an edge to the node goes through.
    std::size_t passings_to(std::size_t from, const trunk& of, std::size_t node) const {
        return of.passings.empty() ? 0 : items_[node].rank - items_[from].rank - 1;
    }
    std::size_t item_above(std::size_t from, const trunk& of, std::size_t node) const {
        const std::size_t count = passings_to(from, of, node);
        return count == 0 ? from : of.passings[count - 1];
    }

    // Orders a row by the mean of its neighbours' places on one side, and puts each as near to there as it can be.
    void arrange(std::vector<std::size_t>& row, std::vector<std::size_t> item::* neighbours) {
        for (const std::size_t i : row) {
            const std::vector<std::size_t>& all = items_[i].*neighbours;
            // A beginning follows what needs it, not the other way round: else long chains would run aslant.
            const auto counts = [&](std::size_t each) { return !items_[each].parents.empty(); };
            const bool counts_all = neighbours == &item::children || std::ranges::none_of(all, counts);
            double sum = 0;
            std::size_t counted = 0;
            for (const std::size_t each : all) {
                if (!counts_all && !counts(each)) continue;
                sum += items_[each].center;
                ++counted;
            }
            if (counted != 0) items_[i].center = sum / static_cast<double>(counted);
        }
        std::ranges::sort(row, {}, [&](std::size_t i) { return std::pair(items_[i].center, i); });
        spread(row);
    }

    // Moves what comes after nothing to what needs it, where that is now.
    void arrange_beginnings(std::vector<std::size_t>& row) {
        const auto is_beginning = [&](std::size_t i) {
            return items_[i].parents.empty() && !items_[i].children.empty();
        };
        if (std::ranges::none_of(row, is_beginning) || std::ranges::all_of(row, is_beginning)) return;
        for (const std::size_t i : row) {
            if (!is_beginning(i)) continue;
            double sum = 0;
            for (const std::size_t each : items_[i].children) sum += items_[each].center;
            items_[i].center = sum / static_cast<double>(items_[i].children.size());
        }
        std::ranges::sort(row, {}, [&](std::size_t i) { return std::pair(items_[i].center, i); });
        spread(row);
    }

    // Moves the items of a row apart, with the least sum of squares of how far each moves (pool adjacent violators).
    void spread(const std::vector<std::size_t>& row) {
        struct block {
            double sum;
            std::size_t count;
            double at() const { return sum / static_cast<double>(count); }
        };
        std::vector<block> blocks;  // of items side by side
        std::vector<double> offsets;
        for (std::size_t k = 0; k < row.size(); ++k) {
            const item& here = items_[row[k]];
            offsets.push_back(k == 0 ? 0 : offsets.back() + (items_[row[k - 1]].width + here.width) / 2 + gap_px);
            blocks.push_back({here.center - offsets.back(), 1});
            while (blocks.size() > 1 && blocks[blocks.size() - 2].at() > blocks.back().at()) {
                const block last = blocks.back();
                blocks.pop_back();
                blocks.back().sum += last.sum;
                blocks.back().count += last.count;
            }
        }
        std::size_t k = 0;
        for (const block& each : blocks) {
            for (std::size_t n = 0; n < each.count; ++n, ++k) items_[row[k]].center = each.at() + offsets[k];
        }
    }

    void place_boxes() {
        double left = items_.front().center, right = left;
        for (const item& each : items_) {
            left = std::min(left, each.center - each.width / 2);
            right = std::max(right, each.center + each.width / 2);
        }
        for (item& each : items_) each.center -= left;
        made_.width = right - left;
        double top = 0;
        for (const std::vector<std::size_t>& row : rows_) {
            double height = 0;
            for (const std::size_t i : row) {
                if (i < made_.boxes.size()) height = std::max(height, made_.boxes[i].height);
            }
            for (const std::size_t i : row) {
                if (i >= made_.boxes.size()) continue;
                drawn_box& box = made_.boxes[i];
                box.x = items_[i].center - box.width / 2;
                box.y = top + (height - box.height) / 2;
                box.body_x += box.x;
                box.body_y += box.y;
            }
            row_tops_.push_back(top);
            row_bottoms_.push_back(top + height);
            top += height + row_gap_px_;
        }
        made_.height = top - row_gap_px_;
    }

    // The ends of arrows at one side of a box, from left to right as the arrows come.
    template <typename Key>
    static std::map<Key, double> ports(const drawn_box& box, std::vector<std::pair<double, Key>> ends) {
        std::ranges::sort(ends);
        const auto count = static_cast<double>(ends.size());
        const double step = std::min(18.0, (box.width - 24) / count);
        std::map<Key, double> at;
        for (std::size_t k = 0; k < ends.size(); ++k)
            at[ends[k].second] = box.center() + (static_cast<double>(k) - (count - 1) / 2) * step;
        return at;
    }

    void place_arrows() {
        std::vector<std::vector<std::pair<double, trunk_key>>> out(graph_.nodes.size());
        for (const auto& [key, of] : trunks_) {
            const std::size_t first = of.passings.empty() ? of.to.front() : of.passings.front();
            out[key.first].push_back({items_[first].center, key});
        }
        std::map<trunk_key, double> out_at;
        for (std::size_t i = 0; i < out.size(); ++i) out_at.merge(ports(made_.boxes[i], std::move(out[i])));
        // How much of each trunk's way is drawn already, by arrows to rows above.
        std::map<trunk_key, std::size_t> drawn;
        std::vector<std::size_t> order(graph_.nodes.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::ranges::sort(order, {}, [&](std::size_t node) { return std::pair(items_[node].rank, node); });
        for (const std::size_t node : order) {
            std::vector<std::pair<double, std::size_t>> in;
            const std::vector<layout_edge>& edges = graph_.nodes[node].after;
            for (std::size_t e = 0; e < edges.size(); ++e) {
                const std::size_t above = item_above(edges[e].from, trunks_[key_of(edges[e])], node);
                in.push_back({items_[above].center, e});
            }
            const std::map<std::size_t, double> in_at = ports(made_.boxes[node], std::move(in));
            for (std::size_t e = 0; e < edges.size(); ++e) {
                const trunk_key key = key_of(edges[e]);
                draw(static_cast<std::uint32_t>(node), e, out_at[key], in_at.at(e), drawn[key]);
            }
        }
    }

    void draw(std::uint32_t node, std::size_t number, double out_x, double in_x, std::size_t& drawn) {
        const layout_edge& edge = graph_.nodes[node].after[number];
        const trunk& of = trunks_[key_of(edge)];
        const std::size_t passings = passings_to(edge.from, of, node);
        drawn_arrow arrow{node, number, {}};
        if (drawn == 0) {
            const drawn_box& from = made_.boxes[edge.from];
            arrow.way.push_back({out_x, from.bottom(), row_bottoms_[items_[edge.from].rank]});
        } else {
            const item& last = items_[of.passings[drawn - 1]];
            arrow.way.push_back({last.center, row_bottoms_[last.rank], row_bottoms_[last.rank]});
        }
        for (; drawn < passings; ++drawn) {
            const item& through = items_[of.passings[drawn]];
            arrow.way.push_back({through.center, row_tops_[through.rank], row_bottoms_[through.rank]});
        }
        arrow.way.push_back({in_x, row_tops_[items_[node].rank], made_.boxes[node].y});
        made_.arrows.push_back(std::move(arrow));
    }

    const layout_graph& graph_;
    const double row_gap_px_;
    graph_layout made_;
    std::vector<item> items_;  // the nodes first
    std::map<trunk_key, trunk> trunks_;
    std::vector<std::vector<std::size_t>> rows_;
    std::vector<double> row_tops_, row_bottoms_;
};

}  // namespace

graph_layout lay_out(const layout_graph& graph, double row_gap_px) { return layered_layout(graph, row_gap_px).make(); }

}  // namespace sluice::detail
